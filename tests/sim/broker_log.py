"""Logs of replicas, and the ledger of acknowledged records, which must never be lost.

A record is a leader epoch and a value; its offset is its place in the list. Followers truncate by leader epochs
(KIP-101), in the form in which a fetch carries the last epoch and the leader answers where the two logs diverge
(KIP-595).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LogKey = tuple[str, str | None, int]
"""Topic, topic id (None without ids) and partition: a topic that was created again has another key."""


class Record(NamedTuple):
    """A record; ``epoch`` is the leader epoch in which it was appended."""

    epoch: int
    value: int


class ReplicaLog:
    """The log of one partition on the disk of one broker. It survives everything but StopReplica with delete."""

    __slots__ = ("high_watermark", "records", "topic_id")

    def __init__(self, topic_id: str | None) -> None:
        self.topic_id = topic_id
        self.records: list[Record] = []
        self.high_watermark = 0

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record, -1 when there is none."""
        return self.records[-1].epoch if self.records else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch in the log up to this one (-1 if none), and the offset behind its last record."""
        end = bisect_right(self.records, epoch, key=_epoch)
        return (self.records[end - 1].epoch if end else -1), end

    def diverges_at(self, other_epoch: int, other_end: int) -> tuple[int, int] | None:
        """Where a log of this end and last epoch diverges from this one; None if it is a prefix of this one."""
        if other_end == 0:
            return None
        epoch, end = self.end_of_epoch(other_epoch)
        return (epoch, end) if epoch < other_epoch or end < other_end else None

    def truncate_to(self, end: int) -> None:
        """Drop all records from this offset on."""
        del self.records[end:]
        self.high_watermark = min(self.high_watermark, end)


def _epoch(record: Record) -> int:
    return record.epoch


class Acknowledged(NamedTuple):
    """A record that a leader acknowledged to its producer."""

    offset: int
    record: Record
    leader_epoch: int
    """The epoch of the leader that acknowledged it; not less than the record's own."""
    leader: int


class Loss(NamedTuple):
    """An acknowledged record that is missing at a broker that must have it."""

    key: LogKey
    acknowledged: Acknowledged
    broker: int
    leader_epoch: int | None
    """The leader epoch in which the broker leads; None if the log was checked at the end of the story."""

    def __str__(self) -> str:
        topic, _, partition = self.key
        offset, record, epoch, leader = self.acknowledged
        why = "which must have it at the end" if self.leader_epoch is None else f"leader of epoch {self.leader_epoch}"
        return (
            f"{topic}-{partition}: record {record.value} at {offset}, acknowledged by {leader} in epoch {epoch}, "
            f"is not in the log of {self.broker}, {why}"
        )


class _Leadership(NamedTuple):
    epoch: int
    leader: int
    log: Sequence[Record]


@dataclass(slots=True)
class Ledger:
    """Every acknowledgement and every leader of every partition, compared as they happen."""

    acknowledged: dict[LogKey, list[Acknowledged]] = field(default_factory=dict)
    """The records that must still exist; a loss is reported once."""
    unclean_allowed: set[str] = field(default_factory=set)
    """Topics that may lose records: the story names them before it allows, or orders, an unclean election."""
    being_deleted: set[str] = field(default_factory=set)
    """Topics that are being deleted: their records may be lost."""
    lost: list[Loss] = field(default_factory=list)
    """Losses that nothing excuses."""
    lost_uncleanly: list[Loss] = field(default_factory=list)
    """Losses of topics with unclean elections."""
    count: int = 0
    """How many records were ever acknowledged."""
    double_leaders: list[str] = field(default_factory=list)
    """Two brokers that led one partition in the same leader epoch, as sentences."""
    _leaderships: dict[LogKey, list[_Leadership]] = field(default_factory=dict)

    def leads(self, key: LogKey, leader: int, epoch: int, log: ReplicaLog) -> None:
        """Note that a broker begins to lead: records acknowledged in lower epochs must be in its log."""
        rivals = [
            leadership.leader
            for leadership in self._leaderships_of(key)
            if leadership.epoch == epoch and leadership.leader != leader
        ]
        if rivals and key[0] not in self.being_deleted:
            self.double_leaders.append(f"{key[0]}-{key[2]}: {rivals[0]} and {leader} both lead in epoch {epoch}")
        self._leaderships.setdefault(key, []).append(_Leadership(epoch, leader, tuple(log.records)))
        for same in _of_one_topic(key, self.acknowledged):
            expected = self.acknowledged[same]
            for each in [each for each in expected if each.leader_epoch < epoch and not _has(log, each)]:
                self._lose(same, each, leader, epoch)

    def acknowledge(self, key: LogKey, offset: int, record: Record, leader: int, epoch: int) -> None:
        """Note that a leader acknowledged a record; leaders of higher epochs may exist already, and must have it."""
        acknowledged = Acknowledged(offset, record, epoch, leader)
        self.acknowledged.setdefault(key, []).append(acknowledged)
        self.count += 1
        for leadership in self._leaderships_of(key):
            if leadership.epoch > epoch and leadership.log[offset : offset + 1] != (record,):
                self._lose(key, acknowledged, leadership.leader, leadership.epoch)
                return

    def forget(self, key: LogKey) -> None:
        """Drop the records of a topic that is being deleted."""
        self.acknowledged.pop(key, None)
        self._leaderships.pop(key, None)

    def forget_topic(self, topic: str) -> None:
        """Drop a topic that is gone; a later topic of that name is another one."""
        for key in [key for key in {**self.acknowledged, **self._leaderships} if key[0] == topic]:
            self.forget(key)

    def last_leader(self, key: LogKey) -> int | None:
        """The broker that led in the highest epoch."""
        return max(self._leaderships[key], key=_leadership_epoch).leader if key in self._leaderships else None

    def check_last(self, key: LogKey, broker: int, log: ReplicaLog | None) -> list[Loss]:
        """The acknowledged records that are missing in a log that must have all at the end; None is no log at all."""
        expected = self.acknowledged.get(key, ())
        return [Loss(key, each, broker, None) for each in expected if log is None or not _has(log, each)]

    def _leaderships_of(self, key: LogKey) -> list[_Leadership]:
        return [leadership for same in _of_one_topic(key, self._leaderships) for leadership in self._leaderships[same]]

    def _lose(self, key: LogKey, acknowledged: Acknowledged, leader: int, epoch: int) -> None:
        self.acknowledged[key].remove(acknowledged)
        if key[0] in self.being_deleted:
            return
        losses = self.lost_uncleanly if key[0] in self.unclean_allowed else self.lost
        losses.append(Loss(key, acknowledged, leader, epoch))


def _of_one_topic(key: LogKey, keys: Iterable[LogKey]) -> list[LogKey]:
    """The keys of a partition whose ids do not differ: a broker may host a topic without knowing its id."""
    topic, topic_id, partition = key
    named = (each for each in keys if each[0] == topic and each[2] == partition)
    return [each for each in named if each[1] == topic_id or None in {each[1], topic_id}]


def _has(log: ReplicaLog, acknowledged: Acknowledged) -> bool:
    records: Final = log.records
    return acknowledged.offset < len(records) and records[acknowledged.offset] == acknowledged.record


def _leadership_epoch(leadership: _Leadership) -> int:
    return leadership.epoch
