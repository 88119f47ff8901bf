"""Unfinished work: the event queue, control requests, reassignments, deletions and comparisons."""

import msgspec

from controllerd.status.schema.cluster import PendingRequest
from controllerd.status.schema.common import Answer
from controllerd.status.schema.status import DeletionStatus


class QueueItem(msgspec.Struct, frozen=True, kw_only=True):
    """One event: the one that is being handled, one that waits, or one of the latest that ended."""

    event_id: int
    event: str
    state: int
    """ControllerState code (KafkaController's metric ControllerState)."""
    phase: str
    """``running``, ``waiting`` or ``done``."""
    wait_ms: float
    run_ms: float | None
    """Null while it waits."""
    outcome: str | None = None
    """The outcome as in the audit log; null before the end."""
    error: str | None = None
    detail: str = ""


class QueueList(Answer, frozen=True, kw_only=True):
    """``GET /v1/queue``: the event that is being handled, then the waiting events, then the latest ended ones."""

    kind: str = "QueueList"
    items: list[QueueItem]
    depth: int
    """How many events wait in all; ``items`` has the first of them."""


class RequestQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The control requests to one broker."""

    broker: int
    connected: bool
    depth: int
    bytes_waiting: int | None
    """Null when the requests are not encoded yet."""
    oldest_age_s: float
    in_flight: str | None
    """The name of the request that is sent and not answered yet; null between requests."""
    attempts: int
    """How often the first request was sent."""
    last_sent: str | None
    last_answered: str | None
    error: str | None
    waiting: list[PendingRequest]
    """The first of the waiting requests."""


class RequestQueueList(Answer, frozen=True, kw_only=True):
    """``GET /v1/requests``, by broker."""

    kind: str = "RequestQueueList"
    items: list[RequestQueue]


class ReplicaProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a replica that is being added; null where no broker has reported sizes yet."""

    broker: int
    in_isr: bool
    bytes: int | None
    """The size of its log."""
    lag_bytes: int | None
    """The bytes of the leader that it does not have yet."""


class ReassignmentItem(msgspec.Struct, frozen=True, kw_only=True):
    """One partition that is being reassigned."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    target: list[int]
    age_s: float | None
    """Seconds since the reassignment began; null when the recent records do not reach back so far."""
    percent: float | None
    """The copied share of the bytes; null while no broker has reported sizes."""
    bytes_left: int | None
    bytes_per_s: float | None
    """The smoothed rate of the copying."""
    eta_seconds: float | None
    """Null while nothing is copied or sizes are not known: it is never guessed."""
    throttle_bytes_per_s: int | None
    blocker: str | None
    """The reason why it is not complete, as a sentence; null when only the last step remains."""
    progress: list[ReplicaProgress]


class ReassignmentList(Answer, frozen=True, kw_only=True):
    """``GET /v1/reassignments``, by topic and partition."""

    kind: str = "ReassignmentList"
    items: list[ReassignmentItem]
    total: int
    next_cursor: str | None = None


class DeletionBlocker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that holds up the deletion of a topic."""

    broker: int
    replicas: int
    """How many replicas of the topic it has not deleted."""
    state: str
    """The state of these replicas by Kafka's name."""
    why: str


class DeletionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that is to be deleted."""

    deletion: DeletionStatus
    replicas_by_state: dict[str, int]
    blockers: list[DeletionBlocker]
    age_s: float | None


class DeletionList(Answer, frozen=True, kw_only=True):
    """``GET /v1/deletions``, by topic."""

    kind: str = "DeletionList"
    items: list[DeletionItem]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs between ZooKeeper, the memory of this controller and the metadata of a broker."""

    subject: str
    """``payments-7``, a topic, or a broker."""
    field: str
    zookeeper: str | None
    memory: str | None
    broker: str | None = None
    """The value in the metadata of one broker, with its id."""


class DifferenceList(Answer, frozen=True, kw_only=True):
    """``GET /v1/diff`` and ``GET /v1/diff/{id}``, when the comparison is complete."""

    kind: str = "DifferenceList"
    items: list[Difference]
    compared: int
    """How many partitions were compared."""
    brokers: list[int]
    """The brokers whose metadata was compared."""
    notes: list[str] = []
    """The parts that could not be compared, and the reasons."""


class Comparing(Answer, frozen=True, kw_only=True):
    """``GET /v1/diff`` and ``GET /v1/diff/{id}`` with 202: the progress of a comparison."""

    kind: str = "Comparing"
    id: str
    stage: str
    """The current step, such as ``asking broker 3 (2 of 5)``."""
    percent: float | None
    """Never decreases; null while the comparison waits for its turn. It ends before 100 where nothing differs."""
    elapsed_s: float
    """Seconds since the request."""
    eta_seconds: float | None
    """The remaining time at the speed so far, for the known part of the work; null while it cannot be estimated."""
