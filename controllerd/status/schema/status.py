"""``GET /v1/status``: one instance, and the cluster in its memory."""

import msgspec

from controllerd.status.schema.common import Answer


class HolderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of ``/controller``.

    ``kind`` is ``controllerd``, ``broker`` (a broker's built-in controller), or ``unknown`` where the znode cannot be
    parsed.
    """

    node_id: int
    kind: str
    instance: str | None
    since: str
    since_ms: int
    host: str | None = None
    """Its host name or address; null when it is not registered among the brokers."""

    def __str__(self) -> str:
        if self.kind == "unknown":
            return "an unknown process (/controller is unreadable)"
        return f"controllerd {self.node_id}" if self.kind == "controllerd" else f"broker {self.node_id} (built-in)"


class ListenerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint of a broker."""

    name: str
    host: str
    port: int
    security_protocol: str


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live broker and the queue of control requests to it."""

    id: int
    broker_epoch: int
    rack: str | None
    listeners: list[ListenerStatus]
    shutting_down: bool
    connected: bool
    queue_depth: int
    queue_oldest_age_s: float
    error: str | None


class PartitionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many topics and partitions there are, and how many need attention."""

    topics: int
    partitions: int
    offline: int
    under_replicated: int
    non_preferred: int
    waiting: int
    """New partitions without a leader yet, because no replica is live."""
    reassigning: int = 0
    deleting: int = 0
    """Topics that are being deleted."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The event queue and the event that is being handled."""

    depth: int
    oldest_age_s: float
    current_event: str | None
    current_number: int | None
    current_running_s: float


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The ZooKeeper session; ``session_id`` is hexadecimal as ZooKeeper's own tools print it."""

    state: str
    session_id: str | None
    generation: int


class AuditStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The writer of the audit log."""

    records_written: int
    records_lost: int
    trouble: str | None


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A znode that cannot be understood and is not overwritten."""

    path: str
    reason: str


class Uncovered(msgspec.Struct, frozen=True, kw_only=True):
    """A listener of the brokers on which clients cannot reach the active controller."""

    listener: str
    reason: str


class DeletionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose deletion was requested."""

    topic: str
    has_begun: bool
    """Whether brokers got an UpdateMetadata that announces the deletion: from then on it is final."""
    held_up_by: str | None
    """Why the deletion cannot continue now; null while it is under way."""
    deleting: list[int]
    """The brokers that have not answered the StopReplica request to delete their replicas."""


class PendingDeletionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that must still delete replicas of partitions which are not assigned to it any more."""

    broker: int
    replicas: int


class PauseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An activity of the controller that an operator paused; the pause ends by itself."""

    what: str
    """``auto-rebalance``, ``deletions``, or ``drain-`` and the id of a broker."""
    until: str
    until_ms: int
    reason: str
    asked_by: str


class EndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that was handled; ``outcome`` as in the audit log."""

    event_id: int
    event: str
    at: str
    at_ms: int
    took_ms: float
    outcome: str
    error: str | None


class SettingProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of the cluster that has different values on brokers, or on brokers and in the configuration here."""

    setting: str
    problem: str


class Status(msgspec.Struct, frozen=True, kw_only=True, rename={"pending_deletions": "debts"}):
    """This instance, and the cluster in its memory; only the active controller has counts of the cluster."""

    role: str
    reason: str
    node_id: int
    instance: str
    version: str
    holder: HolderStatus | None
    zookeeper: SessionStatus
    queue: QueueStatus
    counts: PartitionCounts
    brokers: list[BrokerStatus]
    quarantined: list[Quarantined]
    uncovered: list[Uncovered] = []
    deletions: list[DeletionStatus] = []
    pending_deletions: list[PendingDeletionStatus] = []
    """Replica deletions that brokers have not confirmed, by broker."""
    settings: list[SettingProblem] = []
    """The settings of the cluster on which brokers, or the configuration here, disagree."""
    audit: AuditStatus
    pauses: list[PauseStatus] = []
    latest_events: list[EndedEvent] = []
    """The last five events, newest first."""
    observed: dict[str, int] | None = None
    """The number of partitions by ruling of their comparison; null unless this instance observes."""
    registered: bool = False
    """Whether this instance is registered under ``/brokers/ids``, for brokers older than 3.0."""


class StatusResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/status``."""

    kind: str = "Status"
    status: Status
