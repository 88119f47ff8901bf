"""What is under way: the event queue, control requests, reassignments, deletions, elections, terms."""

import msgspec

from controllerd.status.schema.cluster import PendingRequest
from controllerd.status.schema.common import Answer
from controllerd.status.schema.status import DeletionStatus


class QueueItem(msgspec.Struct, frozen=True, kw_only=True):
    """One event: the one in work (``running_s`` is set), one that waits, or one of the latest that ended."""

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
    """As in the audit log; null before the end."""
    error: str | None = None
    detail: str = ""


class QueueList(Answer, frozen=True, kw_only=True):
    """``GET /v1/queue``: the event in work first, then those that wait, then the latest that ended, newest first."""

    kind: str = "QueueList"
    items: list[QueueItem]
    depth: int
    """How many wait in all; ``items`` shows the first of them."""


class RequestQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The control requests towards one broker."""

    broker: int
    connected: bool
    depth: int
    bytes_waiting: int | None
    """Null when the requests were not encoded yet."""
    oldest_age_s: float
    in_flight: str | None
    """Name of the request whose answer is waited for; null between requests."""
    attempts: int
    """Of the request at the head."""
    last_sent: str | None
    last_answered: str | None
    error: str | None
    waiting: list[PendingRequest]
    """The first of those that wait."""


class RequestQueueList(Answer, frozen=True, kw_only=True):
    """``GET /v1/requests``, by broker."""

    kind: str = "RequestQueueList"
    items: list[RequestQueue]


class ReplicaProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replica that is being added has come; null where no broker has said so yet."""

    broker: int
    in_isr: bool
    bytes: int | None
    """What it has on its disk."""
    lag_bytes: int | None
    """What the leader has beyond that."""


class ReassignmentItem(msgspec.Struct, frozen=True, kw_only=True):
    """One partition that moves."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    target: list[int]
    age_s: float | None
    """Since when it moves; null when it began before what is remembered."""
    percent: float | None
    """Of the bytes to copy; null while no broker has told sizes."""
    bytes_left: int | None
    bytes_per_s: float | None
    """Smoothed rate of the copying."""
    eta_seconds: float | None
    """Never guessed: null while nothing is copied or sizes are not known."""
    throttle_bytes_per_s: int | None
    blocker: str | None
    """What it waits for, as a sentence; null when all is done but the last step."""
    progress: list[ReplicaProgress]


class ReassignmentList(Answer, frozen=True, kw_only=True):
    """``GET /v1/reassignments``, by topic and partition."""

    kind: str = "ReassignmentList"
    items: list[ReassignmentItem]
    total: int
    next_cursor: str | None = None


class DeletionBlocker(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds up the deletion of a topic."""

    broker: int
    replicas: int
    """How many of the topic's replicas are on it and not deleted."""
    state: str
    """Their state by Kafka's name."""
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


class ElectionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One election of the recent past, newest first."""

    at: str
    at_ms: int
    event_id: int
    topic: str
    partition: int
    strategy: str
    trigger: str
    """Name of the event in whose course it was held."""
    was: int | None
    """Who led before; null where that is no longer remembered."""
    leader: int | None
    """Null when it failed."""
    unclean: bool
    cause: str
    """Why it failed, or why it was needed."""


class ElectionList(Answer, frozen=True, kw_only=True):
    """``GET /v1/elections``."""

    kind: str = "ElectionList"
    items: list[ElectionItem]


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One time span in which this instance, or somebody else, held the role, as far as this instance has seen."""

    controller_epoch: int | None
    """Null for a term of somebody else whose epoch was not read."""
    holder: str
    began: str
    began_ms: int
    ended: str | None
    reason: str


class TermList(Answer, frozen=True, kw_only=True):
    """``GET /v1/history``, newest first."""

    kind: str = "TermList"
    items: list[Term]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that ZooKeeper, this controller's memory and a broker's metadata do not say alike."""

    subject: str
    """``payments-7``, a topic, or a broker."""
    field: str
    zookeeper: str | None
    memory: str | None
    broker: str | None = None
    """What one broker's metadata says, with its id."""


class DifferenceList(Answer, frozen=True, kw_only=True):
    """``GET /v1/diff`` and ``GET /v1/diff/{id}``, once it was compared."""

    kind: str = "DifferenceList"
    items: list[Difference]
    compared: int
    """How many partitions were compared."""
    brokers: list[int]
    """The brokers whose metadata was compared."""
    notes: list[str] = []
    """What could not be compared, and why."""


class Comparing(Answer, frozen=True, kw_only=True):
    """``GET /v1/diff`` and ``GET /v1/diff/{id}`` with 202, while it is compared: how far that has come."""

    kind: str = "Comparing"
    id: str
    stage: str
    """What is done now, such as ``asking broker 3 (2 of 5)``."""
    percent: float | None
    """Never goes back; null while it waits for its turn. Where nothing differs it ends before 100."""
    elapsed_s: float
    """Since it was asked for."""
    eta_seconds: float | None
    """What is left at the speed so far, of all that is known to be needed; null while nobody can say."""
