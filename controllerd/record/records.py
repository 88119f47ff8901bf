"""The schema of the audit log: every kind of record as a typed value (``record.kinds`` lists all by name).

A line of the log is the envelope (``v, kind, cluster, node, boot, seq, epoch, event, ts_ms, mono_ns, prev``, added by
the writer; ``record.envelope``) around ``data``, the fields of one record. Many partitions are columns of one record,
at most ``MAX_ROWS`` each.
Standard library only. Schema changes are additive; ``SCHEMA_VERSION`` grows when the meaning of a field changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

SCHEMA_VERSION: Final = 1
MAX_ROWS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Record:
    """Base of all records."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class SessionRecord(Record):
    """The ZooKeeper session changed: ``connected``, ``suspended``, ``reconnected``, ``lost``, ``closed``."""

    kind: ClassVar[str] = "session"
    state: str
    session_id: int
    generation: int


@dataclass(frozen=True, slots=True)
class TermRecord(Record):
    """``elected``, ``renewed`` begin a term; ``ended``, ``resigned``, ``fenced``, ``expired``, ``unavailable`` end one.

    ``held`` and ``refused`` say why none began; the epoch of ``held`` is the holder's, 0 where it was not read.
    """

    kind: ClassVar[str] = "term"
    change: str
    controller_epoch: int
    epoch_zk_version: int
    holder: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigRecord(Record):
    """The effective configuration at the start of the daemon, and when an operator had something remembered."""

    kind: ClassVar[str] = "config"
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SnapshotBegin(Record):
    """What follows, up to ``SnapshotEnd``, is everything that was loaded at the start of this epoch.

    ``periodic``: everything that is known in the middle of an epoch, so that a replay may begin here. It is written
    between events: rows of the snapshot have the event number 0, those with another one are changes as ever. To a
    replay that began earlier it says nothing new. ``level`` is what ``audit.level`` was, ``epoch_zk_version`` that of
    the term (0 at its opening, where its own record says it).
    """

    kind: ClassVar[str] = "snapshot_begin"
    controller_epoch: int
    periodic: bool = False
    level: str = "normal"
    epoch_zk_version: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotEnd(Record):
    """The load is complete, with the counts that a reader must arrive at."""

    kind: ClassVar[str] = "snapshot_end"
    brokers: int
    topics: int
    partitions: int


@dataclass(frozen=True, slots=True)
class DigestRecord(Record):
    """The digest (``record.digest``) of the controller's own picture at this moment, computed without any record."""

    kind: ClassVar[str] = "digest"
    digest: str
    partitions: int
    brokers: int


@dataclass(frozen=True, slots=True)
class EventBegin(Record):
    """An event's handling begins; the envelope's ``event`` is its number, here as well."""

    kind: ClassVar[str] = "event_begin"
    number: int
    name: str
    state: int
    queued_ms: float
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventEnd(Record):
    """An event ended: ``done``, ``refused`` (not granted, or not here), ``error``, ``moved`` or ``unavailable``."""

    kind: ClassVar[str] = "event_end"
    number: int
    name: str
    outcome: str
    took_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplyRecord(Record):
    """A call was answered.

    ``remaining``: how many partitions a broker that is to stop still led, in the answer to its controlled shutdown or
    drain; None in every other answer, and where the request was refused.
    """

    kind: ClassVar[str] = "reply"
    number: int
    name: str
    summary: str
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One live broker."""

    id: int
    epoch: int
    endpoints: list[str]
    rack: str | None


@dataclass(frozen=True, slots=True)
class BrokersRecord(Record):
    """Brokers that became live (or changed), died, or began a controlled shutdown."""

    kind: ClassVar[str] = "brokers"
    live: list[BrokerRow] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    shutting_down: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TopicsRecord(Record):
    """Topics that became known or were read or written anew; columns."""

    kind: ClassVar[str] = "topics"
    names: list[str]
    ids: list[str | None]
    znode_versions: list[int]


@dataclass(frozen=True, slots=True)
class TopicsForgotten(Record):
    """Topics that are gone."""

    kind: ClassVar[str] = "topics_forgotten"
    names: list[str]


@dataclass(frozen=True, slots=True)
class AssignmentRecord(Record):
    """Assignments as topic znodes have them; columns."""

    kind: ClassVar[str] = "assignment"
    topics: list[str]
    partitions: list[int]
    replicas: list[list[int]]
    adding: list[list[int]]
    removing: list[list[int]]


@dataclass(frozen=True, slots=True)
class LeadershipRecord(Record):
    """Leaderships as state znodes have them; columns."""

    kind: ClassVar[str] = "leadership"
    topics: list[str]
    partitions: list[int]
    leaders: list[int]
    leader_epochs: list[int]
    isrs: list[list[int]]
    controller_epochs: list[int]
    partition_epochs: list[int]
    recovery_states: list[int]


@dataclass(frozen=True, slots=True)
class PartitionStateRecord(Record):
    """Transitions of the partition state machine; columns. States are Kafka's names."""

    kind: ClassVar[str] = "partition_state"
    topics: list[str]
    partitions: list[int]
    before: list[str]
    after: list[str]


@dataclass(frozen=True, slots=True)
class ReplicaStateRecord(Record):
    """Transitions of the replica state machine; columns. States are Kafka's names."""

    kind: ClassVar[str] = "replica_state"
    topics: list[str]
    partitions: list[int]
    brokers: list[int]
    before: list[str]
    after: list[str]


@dataclass(frozen=True, slots=True)
class RefusedRecord(Record):
    """Something was asked and not done: transitions, elections, writes; ``reasons`` says why, one per row."""

    kind: ClassVar[str] = "refused"
    what: str
    topics: list[str]
    partitions: list[int]
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class DecisionRecord(Record):
    """Leaders that an election decided on, before they were written; columns."""

    kind: ClassVar[str] = "decision"
    strategy: str
    topics: list[str]
    partitions: list[int]
    leaders: list[int]
    isrs: list[list[int]]
    unclean: list[bool]


@dataclass(frozen=True, slots=True)
class OfflineDirsRecord(Record):
    """The partitions of a broker that sit on a failed log directory; ``continues``: and those of the record before."""

    kind: ClassVar[str] = "offline_dirs"
    broker: int
    topics: list[str]
    partitions: list[int]
    continues: bool = False


@dataclass(frozen=True, slots=True)
class QuarantineRecord(Record):
    """A znode was put into quarantine, or (``reason`` None) released from it."""

    kind: ClassVar[str] = "quarantine"
    path: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class RejectedRecord(Record):
    """A znode that cannot be understood; ``content``: its beginning in base64, empty where it may hold passwords."""

    kind: ClassVar[str] = "rejected"
    path: str
    version: int
    size: int
    sha256: str
    content: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeletionRecord(Record):
    """Deletions of topics: ``queued``, ``started``, ``halted`` (with the reason) or ``resumed``; columns."""

    kind: ClassVar[str] = "deletion"
    topics: list[str]
    changes: list[str]
    reasons: list[str | None]


@dataclass(frozen=True, slots=True)
class PendingDeletionsRecord(Record):
    """The replicas that a broker must still delete, with the ids of their topics; ``continues`` the record before."""

    kind: ClassVar[str] = "debt"
    broker: int
    topics: list[str]
    partitions: list[int]
    topic_ids: list[str | None]
    continues: bool = False


@dataclass(frozen=True, slots=True)
class ReassignmentRecord(Record):
    """Reassignments ``begun``, ``overridden``, ``cancelled``, ``resumed``, ``completing`` or ``completed``; columns."""

    kind: ClassVar[str] = "reassignment"
    step: str
    topics: list[str]
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class ZkWriteRecord(Record):
    """One transaction; columns per operation without the fence.

    ``fence`` is the version of ``/controller_epoch`` that it demanded (-1: unfenced); ``results`` are ``ok`` or
    ZooKeeper's error; ``ambiguous`` says that the answer was lost and the outcome was read back.
    """

    kind: ClassVar[str] = "zk"
    fence: int
    zxid: int
    took_ms: float
    operations: list[str]
    paths: list[str]
    expected: list[int]
    results: list[str]
    versions: list[int]
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class RequestRecord(Record):
    """A control request was queued for brokers; those that got an equal body share one record. Columns.

    StopReplica has no ``leaders`` and ``partition_epochs``; ``delete`` is StopReplica's, ``is_new`` LeaderAndIsr's.
    A request of more than ``MAX_ROWS`` partitions is several records; ``continues`` marks all but the first.
    ``unnamed``: so many partitions of the request that are not in the columns. Below the level ``full`` LeaderAndIsr
    and UpdateMetadata name none: what they say of a partition stands in the records of its leadership. The first of
    several records counts those of the others so. ``led``: of LeaderAndIsr's unnamed ones, how many each of
    ``brokers`` leads.
    """

    kind: ClassVar[str] = "request"
    api: str
    controller_epoch: int
    brokers: list[int]
    broker_epochs: list[int]
    topics: list[str]
    partitions: list[int]
    leaders: list[int]
    leader_epochs: list[int]
    partition_epochs: list[int]
    live_brokers: list[int] = field(default_factory=list)
    delete: list[bool] = field(default_factory=list)
    is_new: list[bool] = field(default_factory=list)
    continues: bool = False
    unnamed: int = 0
    led: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ResponseRecord(Record):
    """A broker answered. ``errors`` are per partition (``topic-partition`` to code), without those that are 0."""

    kind: ClassVar[str] = "response"
    broker: int
    broker_epoch: int
    api: str
    version: int
    correlation_id: int
    bytes_sent: int
    attempts: int
    took_ms: float
    error: int
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlarmRecord(Record):
    """Something that an operator must know: bad input, a refusal, a defect."""

    kind: ClassVar[str] = "alarm"
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class GapRecord(Record):
    """Records were lost because they could not be written; never silent."""

    kind: ClassVar[str] = "gap"
    lost: int
    first_seq: int
    last_seq: int
    reason: str
