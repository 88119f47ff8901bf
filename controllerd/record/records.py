"""The schema of the audit log: the types of its records (``record.kinds`` lists all kinds by name).

A line of the log is the envelope (``v, kind, cluster, node, boot, seq, epoch, event, ts_ms, mono_ns, prev``, added by
the writer; ``record.envelope``) around ``data``, the fields of one record. Many partitions are columns of one record,
at most ``MAX_ROWS`` each.

The module uses the standard library only. Schema changes are additive; ``SCHEMA_VERSION`` grows when the meaning of a
field changes.
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
    """A change of the role: the beginning of a term, its end, or the reason why none began.

    ``elected`` and ``renewed`` begin a term; ``ended``, ``resigned``, ``fenced``, ``expired``, ``unavailable`` end one.

    ``held`` and ``refused`` say why no term began. The epoch of ``held`` is the holder's, 0 if it was not read.
    """

    kind: ClassVar[str] = "term"
    change: str
    controller_epoch: int
    epoch_zk_version: int
    holder: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigRecord(Record):
    """The effective configuration, at the start of the daemon and when an operator stored a setting."""

    kind: ClassVar[str] = "config"
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SnapshotBegin(Record):
    """The beginning of a snapshot. The records up to ``SnapshotEnd`` have the state loaded at the start of this epoch.

    A ``periodic`` snapshot has the state in the middle of an epoch, so that a replay may begin with it. It is written
    between events: its rows have the event number 0, and records with another event number are changes as usual. For a
    replay that began earlier it has no new content. ``level`` is ``audit.level``; ``epoch_zk_version`` is that of the
    term (0 in the first snapshot of a term, whose own record has it).
    """

    kind: ClassVar[str] = "snapshot_begin"
    controller_epoch: int
    periodic: bool = False
    level: str = "normal"
    epoch_zk_version: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotEnd(Record):
    """The end of a snapshot, with the counts that the folded state must have."""

    kind: ClassVar[str] = "snapshot_end"
    brokers: int
    topics: int
    partitions: int


@dataclass(frozen=True, slots=True)
class DigestRecord(Record):
    """The digest (``record.digest``) of the controller's own state at this moment, computed without the records."""

    kind: ClassVar[str] = "digest"
    digest: str
    partitions: int
    brokers: int


@dataclass(frozen=True, slots=True)
class EventBegin(Record):
    """The handling of an event begins. The envelope of this record has the event's number already."""

    kind: ClassVar[str] = "event_begin"
    number: int
    name: str
    state: int
    queued_ms: float
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventEnd(Record):
    """The handling of an event ended: ``done``, ``refused``, ``error``, ``moved`` or ``unavailable``."""

    kind: ClassVar[str] = "event_end"
    number: int
    name: str
    outcome: str
    took_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplyRecord(Record):
    """A call was answered.

    ``remaining`` is in the answer to a controlled shutdown or a drain: the number of partitions that the broker still
    leads. It is None in every other answer, and if the request was refused.
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
    """Brokers that became live (or changed), failed, or began a controlled shutdown."""

    kind: ClassVar[str] = "brokers"
    live: list[BrokerRow] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    shutting_down: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TopicsRecord(Record):
    """Topics that became known, or were read or written again; columns."""

    kind: ClassVar[str] = "topics"
    names: list[str]
    ids: list[str | None]
    znode_versions: list[int]


@dataclass(frozen=True, slots=True)
class TopicsForgotten(Record):
    """Topics that no longer exist."""

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
    """Transitions, elections or writes that were refused; ``reasons`` has the reason of each row."""

    kind: ClassVar[str] = "refused"
    what: str
    topics: list[str]
    partitions: list[int]
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class DecisionRecord(Record):
    """The results of elections, before they are written; columns."""

    kind: ClassVar[str] = "decision"
    strategy: str
    topics: list[str]
    partitions: list[int]
    leaders: list[int]
    isrs: list[list[int]]
    unclean: list[bool]


@dataclass(frozen=True, slots=True)
class OfflineDirsRecord(Record):
    """The partitions of a broker on failed log directories. ``continues``: the record continues the previous one."""

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
    """An unreadable znode. ``content`` is its beginning in base64, or empty if it may hold passwords."""

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
    """The pending replica deletions of a broker, with topic ids. ``continues``: it continues the previous record."""

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
    """A ZooKeeper transaction; columns with its operations, without the check of the fence.

    ``fence`` is the version of ``/controller_epoch`` that it required (-1: unfenced). ``results`` are ``ok`` or
    ZooKeeper's error. ``ambiguous``: the response was lost, and the outcome was read back.
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
    """A control request that was queued for brokers; brokers with an equal body share one record. Columns.

    StopReplica has no ``leaders`` and ``partition_epochs``. Only StopReplica has ``delete``, and only LeaderAndIsr has
    ``is_new``. A request of more than ``MAX_ROWS`` partitions has several records; ``continues`` marks all but the
    first. ``unnamed`` is the number of its partitions that are not in the columns. Below the level ``full``,
    LeaderAndIsr and UpdateMetadata name no partition, because the leadership records have the content. The first of
    several records counts the partitions of the others in ``unnamed``. ``led``: the number of LeaderAndIsr's unnamed
    partitions that each of ``brokers`` leads.
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
    """A broker's response. ``errors`` has the error code of each failed partition, by ``topic-partition``."""

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
    """A problem that an operator must know about: bad input, a refusal, a defect."""

    kind: ClassVar[str] = "alarm"
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class GapRecord(Record):
    """Records that were lost because they could not be written. Every loss is declared by such a record."""

    kind: ClassVar[str] = "gap"
    lost: int
    first_seq: int
    last_seq: int
    reason: str
