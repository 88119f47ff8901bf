"""A long log of small records, as a busy cluster leaves it: ISRs shrink and grow, and everybody is told of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controllerd.record.envelope import Envelope
from controllerd.record.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    ResponseRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
    ZkWriteRecord,
)
from tests.record.logs import NODE, Log

BROKERS: Final = {1: 101, 2: 102, 3: 103}
_EPOCH: Final = 7
_FENCE: Final = 12


def busy_log(records: int, *, topics: int = 50, partitions: int = 20) -> Log:
    """So many records, give or take those of the last event; a millisecond apart."""
    log: Log = []
    names = [f"topic-{number}" for number in range(topics)]
    for seq, (event, record) in enumerate(_records(names, partitions), 1):
        log.append(
            (Envelope(1, record.kind, "cluster", NODE, "boot", seq, _EPOCH, event, seq, seq * 10**6, ""), record)
        )
        if seq >= records and isinstance(record, EventEnd):
            break
    return log


def _records(names: list[str], partitions: int) -> Iterator[tuple[int, Record]]:
    yield from ((1, record) for record in _takeover(names, partitions))
    isr_is_full = dict.fromkeys(((name, number) for name in names for number in range(partitions)), True)
    correlation = event = 1
    while True:
        for (name, number), is_full in isr_is_full.items():
            event, correlation = event + 1, correlation + 1
            isr = [1, 2] if is_full else [1, 2, 3]
            change = _Change(event, correlation, name, number, event // len(isr_is_full) + 1, isr)
            yield from ((event, record) for record in change.records())
            isr_is_full[name, number] = not is_full


def _takeover(names: list[str], partitions: int) -> Iterator[Record]:
    topics = [name for name in names for _ in range(partitions)]
    numbers = [number for _ in names for number in range(partitions)]
    count, brokers = len(topics), list(BROKERS)
    columns = (topics, numbers, [1] * count, [3] * count)
    yield TermRecord("elected", _EPOCH, _FENCE, "controllerd", "nobody held it")
    yield EventBegin(1, "Startup", 1, 0.1)
    yield SnapshotBegin(_EPOCH)
    yield BrokersRecord(live=[BrokerRow(broker, epoch, [], None) for broker, epoch in BROKERS.items()])
    yield TopicsRecord(names, [f"id-{name}" for name in names], [0] * len(names))
    yield AssignmentRecord(topics, numbers, [brokers] * count, [[]] * count, [[]] * count)
    yield LeadershipRecord(*columns, [brokers] * count, [6] * count, [0] * count, [0] * count)
    yield SnapshotEnd(len(BROKERS), len(names), count)
    yield PartitionStateRecord(topics, numbers, ["NonExistentPartition"] * count, ["OnlinePartition"] * count)
    for broker in BROKERS:
        rows = (topics, numbers, [broker] * count, ["NonExistentReplica"] * count, ["OnlineReplica"] * count)
        yield ReplicaStateRecord(*rows)
    yield RequestRecord("UpdateMetadata", _EPOCH, brokers, list(BROKERS.values()), *columns, [0] * count, brokers)
    yield EventEnd(1, "Startup", "done", 1.0)
    for broker, epoch in BROKERS.items():
        yield ResponseRecord(broker, epoch, "UpdateMetadata", 8, 1, 100, 1, 1.0, 0)


@dataclass(frozen=True, slots=True)
class _Change:
    """The leader of a partition reports another ISR."""

    event: int
    correlation: int
    topic: str
    partition: int
    version: int
    isr: list[int]

    def records(self) -> Iterator[Record]:
        name, path = "AlterPartitionReceived", f"/brokers/topics/{self.topic}/partitions/{self.partition}/state"
        brokers, epochs = list(BROKERS), list(BROKERS.values())
        row = ([self.topic], [self.partition], [1], [3])
        before, after = [self.version - 1], [self.version]
        yield EventBegin(self.event, name, 9, 0.1, {"broker": 1})
        yield ZkWriteRecord(_FENCE, 5_000 + self.event, 1.0, ["setData"], [path], before, ["ok"], after)
        yield LeadershipRecord(*row, [self.isr], [_EPOCH], after, [0])
        yield RequestRecord("UpdateMetadata", _EPOCH, brokers, epochs, *row, after, brokers)
        yield ReplyRecord(self.event, name, "done")
        yield EventEnd(self.event, name, "done", 1.0)
        for broker, epoch in BROKERS.items():
            yield ResponseRecord(broker, epoch, "UpdateMetadata", 8, self.correlation, 100, 1, 1.0, 0)
