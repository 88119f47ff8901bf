"""The records of ``payments-7`` on brokers 3, 5 and 6, written one by one, with a wall clock that the test sets."""

from pathlib import Path
from typing import Final

from controllerd.audit.segments import segment_path
from controllerd.record.envelope import Envelope
from controllerd.record.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DecisionRecord,
    EventBegin,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    RefusedRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
)
from tests.record.logs import Log
from tests.replay.local.logs import chained

NODE: Final = 2_000_000_000
START: Final = 1_769_829_240_000
"""2026-01-31T03:14:00Z."""


class Life:
    """A log that grows: ``second`` is the clock, in seconds since ``START``."""

    def __init__(self, node: int = NODE, boot: str = "boot") -> None:
        self.log: Log = []
        self.second = 0.0
        self.epoch = 0
        self._node, self._boot = node, boot
        self._event = 0

    def write(self, *records: Record) -> None:
        """The records, all at this second."""
        for record in records:
            seq, since_ms = len(self.log) + 1, int(self.second * 1000)
            place = (self._node, self._boot, seq, self.epoch, self._event, START + since_ms, since_ms * 10**6)
            self.log.append((Envelope(1, record.kind, "prod", *place, ""), record))

    def event(self, name: str, *records: Record, **detail: object) -> None:
        """An event that consists of the records."""
        self._event += 1
        self.write(EventBegin(self._event, name, 2, 0.1, detail), *records)
        self.write(EventEnd(self._event, name, "done", 1.0))

    def begin(self, epoch: int = 12, isr: tuple[int, ...] = (5, 3, 6), live: tuple[int, ...] = (3, 5, 6)) -> None:
        """A term begins with broker 5 leading, if it is there."""
        self.epoch = epoch
        leads = 5 in live
        before = "OnlinePartition" if leads else "OfflinePartition"
        self.event(
            "Startup",
            TermRecord("elected", epoch, 3, "nobody", ""),
            SnapshotBegin(epoch),
            came(*live),
            TopicsRecord(["payments"], ["id"], [0]),
            AssignmentRecord(["payments"], [7], [[3, 5, 6]], [[]], [[]]),
            led_by(5, 40, *isr),
            SnapshotEnd(len(live), 1, 1),
            moved("NonExistentPartition", before),
        )

    def end(self, change: str = "expired") -> None:
        """The term ends."""
        self.event("Expire", TermRecord(change, self.epoch, 3, "nobody", "the session expired"))
        self.epoch = 0


def led_by(leader: int, leader_epoch: int, *isr: int) -> LeadershipRecord:
    """A state znode of the partition."""
    return LeadershipRecord(["payments"], [7], [leader], [leader_epoch], [list(isr)], [12], [leader_epoch], [0])


def moved(before: str, after: str) -> PartitionStateRecord:
    """A transition of the partition."""
    return PartitionStateRecord(["payments"], [7], [before], [after])


def came(*brokers: int) -> BrokersRecord:
    """Brokers that registered."""
    return BrokersRecord(live=[BrokerRow(broker, 100 + broker, [], None) for broker in brokers])


def elected(leader: int, *isr: int, strategy: str = "Offline", unclean: bool = False) -> DecisionRecord:
    """The decision of an election."""
    return DecisionRecord(strategy, ["payments"], [7], [leader], [list(isr)], [unclean])


def refused(reason: str) -> RefusedRecord:
    """An election without an eligible replica."""
    return RefusedRecord("election", ["payments"], [7], [reason])


def outage() -> Life:
    """The ISR shrinks to the leader, which dies for a minute while unclean election is off."""
    life = Life()
    life.second = -900
    life.begin()
    life.second = -600
    life.event("AlterPartitionReceived", led_by(5, 40, 5), broker=5)
    life.second = -30
    gone = (BrokersRecord(gone=[5]), moved("OnlinePartition", "OfflinePartition"))
    life.event("BrokerChange", *gone, refused("no replica of the ISR [5] is live"), led_by(-1, 41, 5))
    life.second = 34.8
    back = (came(5), elected(5, 5), led_by(5, 42, 5), moved("OfflinePartition", "OnlinePartition"))
    life.event("BrokerChange", *back)
    life.second = 200
    life.event("TopicChange")
    return life


def forgotten() -> TopicsForgotten:
    """The topic is gone."""
    return TopicsForgotten(["payments"])


def gap(lost: int) -> GapRecord:
    """Records that were lost."""
    return GapRecord(lost, 5, 4 + lost, "the disk was full")


def written(log: Log, directory: Path, *, lines: int | None = None) -> Path:
    """The log as segments of an audit log, ``lines`` in each (None: one segment)."""
    directory.mkdir(parents=True, exist_ok=True)
    chain, size = chained(log), lines or len(log)
    for number, start in enumerate(range(0, len(log), size), 1):
        part = b"".join(chain[start : start + size])
        segment_path(directory, log[start][0].boot, number).write_bytes(part)
    return directory
