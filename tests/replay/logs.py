"""Small logs for tests: records get their envelopes here, in order, as the writer gives them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from replay.envelope import Envelope
from replay.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    ReplicaStateRecord,
    RequestRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
    ZkWriteRecord,
)

NODE: Final = 2_000_000_000
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
    """A term with a failover, the death of a leader, and an ISR that a leader grows again. Nothing is wrong with it."""
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
        BrokersRecord(live=[BrokerRow(1, 111, [], None)]),
        EventBegin(3, "AlterPartitionReceived", 9, 0.1),
        ZkWriteRecord(12, 5001, 1.0, ["setData"], ["/brokers/topics/a/partitions/0/state"], [9], ["ok"], [10]),
        LeadershipRecord(["a"], [0], [2], [4], [[2, 1]], [7], [10], [0]),
        RequestRecord("UpdateMetadata", 7, [2], [102], ["a"], [0], [2], [4], [10], [1, 2]),
        EventEnd(3, "AlterPartitionReceived", "done", 1.0),
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
