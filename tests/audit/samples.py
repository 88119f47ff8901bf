"""One record of every kind, and the ways in which the tests write and read logs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from controllerd.audit.reader import AuditReader
from controllerd.audit.segments import DiskFile, FileOpener
from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.record.envelope import Envelope
from controllerd.record.families.operators import AdminRecord, ObservationRecord, SettingsRecord
from controllerd.record.records import (
    AlarmRecord,
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    ConfigRecord,
    DecisionRecord,
    DeletionRecord,
    DigestRecord,
    EventBegin,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    RejectedRecord,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    ResponseRecord,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
    ZkWriteRecord,
)

CLUSTER: Final = "Zx3vQ1hTQ-2cF4m8o0aBcD"
NODE: Final = 2_000_000_000

ONE_OF_EACH: Final[tuple[Record, ...]] = (
    SessionRecord("connected", -0x7000000000000001, 1),
    TermRecord("elected", 7, 12, "controllerd 2000000000", "nobody held it"),
    ConfigRecord({"audit": {"fsync": "interval"}, "listeners": ["a", "b"], "ratio": 0.5, "none": None}),
    SnapshotBegin(7),
    SnapshotEnd(3, 1, 2),
    DigestRecord("00c0ffee00c0ffee", 2, 3),
    EventBegin(4, "BrokerChange", 2, 0.25, {"why": "watch"}),
    EventEnd(4, "BrokerChange", "error", 1.5, "boom"),
    ReplyRecord(4, "ControlledShutdown", "3 partitions remain"),
    BrokersRecord([BrokerRow(1, 77, ["PLAINTEXT=PLAINTEXT://localhost:9092"], None)], [2], [3]),
    TopicsRecord(["a", "b"], ["AAAAAAAAAAAAAAAAAAAAAQ", None], [0, 3]),
    TopicsForgotten(["b"]),
    AssignmentRecord(["a"], [0], [[1, 2, 3]], [[3]], [[1]]),
    LeadershipRecord(["a"], [0], [1], [4], [[1, 2]], [7], [9], [0]),
    PartitionStateRecord(["a"], [0], ["NewPartition"], ["OnlinePartition"]),
    ReplicaStateRecord(["a"], [0], [1], ["NewReplica"], ["OnlineReplica"]),
    RefusedRecord("election", ["a"], [0], ["no live replica in the ISR"]),
    DecisionRecord("offline", ["a"], [0], [2], [[2]], [True]),
    OfflineDirsRecord(1, ["a"], [0]),
    QuarantineRecord("/brokers/topics/ü", "no JSON"),
    RejectedRecord("/brokers/topics/ü", 3, 2, "00ff", "/w==", "not UTF-8"),
    DeletionRecord(["a", "b"], ["queued", "halted"], [None, "broker 3 is away"]),
    PendingDeletionsRecord(3, ["a"], [0], [None]),
    ReassignmentRecord("begun", ["a"], [0]),
    ZkWriteRecord(12, 4711, 0.5, ["set"], ["/brokers/topics/a"], [3], ["ok"], [4], ambiguous=True),
    RequestRecord("LeaderAndIsr", 7, [1], [77], ["a"], [0], [1], [4], [9], is_new=[True]),
    ResponseRecord(1, 77, "LeaderAndIsr", 7, 5, 120, 1, 2.5, 0, {"a-0": 3}),
    AdminRecord(
        "done", "9f2c", "elections", "User:alice", "127.0.0.1", "drill", "1 done", ["t-0"], ["done"], ["1 -> 2"]
    ),
    SettingsRecord(["num.partitions"], ["1"], ["6"], ["brokers"], [None]),
    AlarmRecord("bad znode", 'quote " and newline \n and \u2028'),
    ObservationRecord(
        "broker died", ["1"], 7, ["a"], [0], [1], [3], [[1, 2]], [2], [4], [[2]], [2], [4], [[2]], ["equal"]
    ),
    GapRecord(2, 5, 6, "No space left on device"),
)


class FixedClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        """Wall clock."""
        return 1_700_000_000_000 + int(self.seconds * 1000)

    def monotonic(self) -> float:
        """Seconds."""
        return self.seconds


def make_writer(
    root: Path,
    *,
    clock: FixedClock | None = None,
    boot: str | None = None,
    opener: FileOpener = DiskFile,
    on_resign: Callable[[str], None] | None = None,
    **settings: Any,
) -> AuditWriter:
    """A writer with quick retries and much patience; ``settings`` are fields of ``AuditSettings``."""
    configured = AuditSettings(root, **{"retry_s": 0.01, "accept_wait_s": 30.0, "close_wait_s": 30.0, **settings})
    return AuditWriter(configured, NODE, clock or FixedClock(), boot=boot, on_resign=on_resign, opener=opener)


async def write_log(root: Path, *records: Record, boot: str | None = None, **settings: Any) -> Path:
    """Write the records as one boot; the directory of the log."""
    writer = make_writer(root, boot=boot, **settings)
    await writer.start(CLUSTER)
    writer.record(*records)
    await writer.close()
    return writer.directory


def read_log(directory: Path) -> list[tuple[Envelope, Record]]:
    """Everything in the log."""
    return list(AuditReader(directory))


def alarms(count: int, first: int = 1) -> list[Record]:
    """Make ``count`` small records with distinct details."""
    return [AlarmRecord("test", str(number)) for number in range(first, first + count)]
