"""Small logs for tests: records get their envelopes here, in order, as the writer gives them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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

NODE: Final = 2_000_000_000
BROKERS: Final = {1: 101, 2: 102, 3: 103}
"""Brokers of a busy log with their epochs."""
_EPOCH, _FENCE = 7, 12
TERM_ENDS: Final = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})
Log = list[tuple[Envelope, Record]]


def log_of(records: Sequence[Record], *, node: int = NODE, boot: str = "boot", epoch: int = 7) -> Log:
    """The records as one boot wrote them, a millisecond apart."""
    return [
        (
            Envelope(1, record.kind, "cluster", node, boot, seq, epoch, 1, 1_700_000_000_000 + seq, seq * 10**6, ""),
            record,
        )
        for seq, record in enumerate(records, 1)
    ]


def good_log() -> Log:
    """A term with a failover, the death and return of a leader, and an ISR that grows again. Nothing is wrong in it."""
    return log_of([
        TermRecord("elected", 7, 12, "controllerd", "nobody held it"),
        EventBegin(1, "Startup", 1, 0.1),
        SnapshotBegin(7),
        BrokersRecord(live=[BrokerRow(1, 101, [], None), BrokerRow(2, 102, [], None)]),
        TopicsRecord(["a"], ["id-a"], [0]),
        AssignmentRecord(["a"], [0], [[1, 2]], [[]], [[]]),
        LeadershipRecord(["a"], [0], [1], [3], [[1, 2]], [6], [8], [0]),
        SnapshotEnd(2, 1, 1),
        RequestRecord("UpdateMetadata", 7, [1, 2], [101, 102], [], [], [], [], [], [1, 2]),
        PartitionStateRecord(["a"], [0], ["NonExistentPartition"], ["OnlinePartition"]),
        ReplicaStateRecord(["a"], [0], [1], ["NonExistentReplica"], ["OnlineReplica"]),
        EventEnd(1, "Startup", "done", 1.0),
        EventBegin(2, "BrokerChange", 2, 0.1),
        BrokersRecord(gone=[1]),
        ZkWriteRecord(12, 5000, 1.0, ["setData"], ["/brokers/topics/a/partitions/0/state"], [8], ["ok"], [9]),
        LeadershipRecord(["a"], [0], [2], [4], [[2]], [7], [9], [0]),
        RequestRecord("LeaderAndIsr", 7, [2], [102], ["a"], [0], [2], [4], [9], is_new=[False]),
        RequestRecord("UpdateMetadata", 7, [2], [102], ["a"], [0], [2], [4], [9], [2]),
        EventEnd(2, "BrokerChange", "done", 1.0),
        EventBegin(3, "BrokerChange", 2, 0.1),
        BrokersRecord(live=[BrokerRow(1, 111, [], None)]),
        RequestRecord("UpdateMetadata", 7, [2], [102], [], [], [], [], [], [1, 2]),
        RequestRecord("UpdateMetadata", 7, [1], [111], ["a"], [0], [2], [4], [9], [1, 2]),
        RequestRecord("LeaderAndIsr", 7, [1], [111], ["a"], [0], [2], [4], [9], is_new=[False]),
        EventEnd(3, "BrokerChange", "done", 1.0),
        ResponseRecord(1, 111, "UpdateMetadata", 8, 1, 100, 1, 1.0, 0),
        EventBegin(4, "AlterPartitionReceived", 9, 0.1, {"broker": 2}),
        ZkWriteRecord(12, 5001, 1.0, ["setData"], ["/brokers/topics/a/partitions/0/state"], [9], ["ok"], [10]),
        LeadershipRecord(["a"], [0], [2], [4], [[2, 1]], [7], [10], [0]),
        RequestRecord("UpdateMetadata", 7, [2], [102], ["a"], [0], [2], [4], [10], [1, 2]),
        ReplyRecord(4, "AlterPartitionReceived", "done"),
        EventEnd(4, "AlterPartitionReceived", "done", 1.0),
    ])  # fmt: skip


def index_of(log: Log, kind: type[Record], nth: int = 0) -> int:
    """Where the nth record of a type stands."""
    return [index for index, (_, record) in enumerate(log) if isinstance(record, kind)][nth]


def with_record(log: Log, index: int, record: Record) -> Log:
    """The log with another record in this place."""
    envelope = replace(log[index][0], kind=record.kind)
    return [*log[:index], (envelope, record), *log[index + 1 :]]


def with_more(log: Log, *records: Record) -> Log:
    """The log with more records at its end."""
    last = log[-1][0]
    return log + [
        (replace(last, kind=record.kind, seq=last.seq + offset, mono_ns=last.mono_ns + offset), record)
        for offset, record in enumerate(records, 1)
    ]


def stamped_log(records: Sequence[Record], *, node: int = NODE, boot: str = "boot") -> Log:
    """The records of a whole story with the epochs and events that the daemon stamps on them."""
    log: Log = []
    epoch = event = 0
    for seq, record in enumerate(records, 1):
        if isinstance(record, EventBegin):
            event = record.number
        elif isinstance(record, TermRecord) and record.change in {"elected", "renewed"}:
            epoch = record.controller_epoch
        log.append((Envelope(1, record.kind, "cluster", node, boot, seq, epoch, event, seq, seq, ""), record))
        if isinstance(record, EventEnd):
            event = 0
        elif isinstance(record, TermRecord) and record.change in TERM_ENDS:
            epoch = 0
    return log


def busy_log(records: int, *, topics: int = 50, partitions: int = 20) -> Log:
    """So many records, give or take those of the last event, as a busy cluster leaves them: ISRs shrink and grow."""
    taken: list[Record] = []
    for record in _busy_records([f"topic-{number}" for number in range(topics)], partitions):
        taken.append(record)
        if len(taken) >= records and isinstance(record, EventEnd):
            break
    return stamped_log(taken)


def _busy_records(names: list[str], partitions: int) -> Iterator[Record]:
    yield from _takeover(names, partitions)
    isr_is_full = dict.fromkeys(((name, number) for name in names for number in range(partitions)), True)
    event = 1
    while True:
        for (name, number), is_full in isr_is_full.items():
            event += 1
            isr = [1, 2] if is_full else [1, 2, 3]
            yield from _IsrChange(event, name, number, event // len(isr_is_full) + 1, isr).records()
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
class _IsrChange:
    """The leader of a partition reports another ISR."""

    event: int
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
            yield ResponseRecord(broker, epoch, "UpdateMetadata", 8, self.event, 100, 1, 1.0, 0)
