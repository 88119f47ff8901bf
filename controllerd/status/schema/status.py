"""``GET /v1/status``: one instance and the cluster as it sees it."""

import msgspec

from controllerd.status.schema.common import Answer


class HolderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds ``/controller``.

    ``kind`` is ``controllerd``, ``broker`` (a broker's built-in controller), or ``unknown`` where the znode cannot be
    understood.
    """

    node_id: int
    kind: str
    instance: str | None
    since: str
    since_ms: int
    host: str | None = None
    """Where it is reached; null when it is not registered among the brokers."""

    def __str__(self) -> str:
        if self.kind == "unknown":
            return "somebody unknown (/controller cannot be understood)"
        return f"controllerd {self.node_id}" if self.kind == "controllerd" else f"broker {self.node_id} (built-in)"


class ListenerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint of a broker."""

    name: str
    host: str
    port: int
    security_protocol: str


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live broker and the control requests that wait for it."""

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
    """New and without a leader yet, for want of live replicas."""
    reassigning: int = 0
    deleting: int = 0
    """Topics."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The event queue and the event in work."""

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
    """The audit log's writer."""

    records_written: int
    records_lost: int
    trouble: str | None


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A znode that cannot be understood and is left alone."""

    path: str
    reason: str


class Uncovered(msgspec.Struct, frozen=True, kw_only=True):
    """A listener of the brokers whose clients see no controller."""

    listener: str
    reason: str


class DeletionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose deletion was asked for."""

    topic: str
    has_begun: bool
    """Whether brokers were told that the topic is gone; there is no way back then."""
    held_up_by: str | None
    """Why it cannot go on or not end now; null while it is under way."""
    deleting: list[int]
    """The brokers that were told to delete their replicas and have not answered."""


class DebtStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that must still delete replicas which nobody assigns to it any more."""

    broker: int
    replicas: int


class PauseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the controller leaves alone for a while, because an operator said so; it ends by itself."""

    what: str
    """``auto-rebalance``, ``deletions``, or ``drain-`` and the id of a broker."""
    until: str
    until_ms: int
    reason: str
    asked_by: str


class EndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the queue that was handled; ``outcome`` as in the audit log."""

    event_id: int
    event: str
    at: str
    at_ms: int
    took_ms: float
    outcome: str
    error: str | None


class SettingProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of the cluster for which brokers, or the configuration here, name different values."""

    setting: str
    problem: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """This instance and the cluster as it sees it; the counts are those of the active controller."""

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
    debts: list[DebtStatus] = []
    settings: list[SettingProblem] = []
    """The settings of the cluster on which brokers, or the configuration here, disagree."""
    audit: AuditStatus
    pauses: list[PauseStatus] = []
    latest_events: list[EndedEvent] = []
    """The last five, newest first."""
    observed: dict[str, int] | None = None
    """Partitions by how they compared; null unless this instance observes."""
    registered: bool = False
    """Whether this instance is registered under ``/brokers/ids``, for brokers older than 3.0."""


class StatusResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/status``."""

    kind: str = "Status"
    status: Status
