"""What the HTTP endpoint answers, as types: the daemon encodes them and ``controllerctl`` decodes them.

Changes are additive within ``v1``. Times are ISO 8601 in UTC beside epoch milliseconds; durations are seconds.
"""

import msgspec


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope's head: which cluster, which term, which version of the picture."""

    cluster_id: str
    controller_epoch: int
    seq: int
    generated_at: str


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
    audit: AuditStatus
    observed: dict[str, int] | None = None
    """Partitions by how they compared; null unless this instance observes."""


class StatusResponse(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``GET /v1/status``."""

    api_version: str = "v1"
    kind: str = "Status"
    meta: Meta
    status: Status


class ObservedState(msgspec.Struct, frozen=True, kw_only=True):
    """What a state znode says, or would say."""

    leader: int
    leader_epoch: int
    isr: list[int]


class ObservedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition beside what this instance would have done; a state that is null does not exist."""

    cause: str
    topic: str
    partition: int
    before: ObservedState | None
    would: ObservedState | None
    after: ObservedState | None
    verdict: str


class ObservedTotal(msgspec.Struct, frozen=True, kw_only=True):
    """How many partitions compared like this; ``ruling`` is equal, different, unclear, deliberate or not judged."""

    cause: str
    ruling: str
    partitions: int


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance that only watches has found since it started."""

    looks: int
    torn: int
    """Looks that could not be used: the cluster changed during each."""
    unsettled: int
    """Causes whose end is waited for."""
    would_refuse: str | None
    """Why this instance would refuse to lead; null when it would not."""
    totals: list[ObservedTotal]
    latest: list[ObservedPartition]
    """The newest partitions, at most 200, oldest first; the audit log has all of them."""
    not_judged: list[str]
    """What is counted and has no cause that shows in ZooKeeper."""
    cannot_be_seen: list[str]
    """What ZooKeeper does not show at all."""


class ObservationsResponse(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``GET /v1/observations``."""

    api_version: str = "v1"
    kind: str = "Observations"
    meta: Meta
    observations: Observations


class TakeoverResponse(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``POST /v1/takeover``; equal epochs mean that the role was ours already."""

    api_version: str = "v1"
    kind: str = "Takeover"
    epoch_before: int
    epoch_after: int
    held_by: str
    took_s: float


class ResignResponse(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``POST /v1/resign``."""

    api_version: str = "v1"
    kind: str = "Resignation"
    took_s: float


class ForgetResponse(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``POST /v1/brokers/{id}/forget``: what the broker held up, and how many replicas it owes from now on."""

    api_version: str = "v1"
    kind: str = "BrokerForgotten"
    broker: int
    topics: list[str]
    replicas: int
    took_s: float


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/brokers/{id}/forget``; ``confirm`` repeats the id, so that no slip forgets a broker."""

    reason: str = ""
    confirm: int | None = None


class AdminRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an admin verb; the reason ends up in the audit log."""

    reason: str = ""


class TakeoverRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/takeover``; ``remember``: from now on the role is taken from brokers unasked."""

    reason: str = ""
    remember: bool = False


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457); ``code`` is stable and for programs, ``hint`` says what to do next."""

    title: str
    status: int
    detail: str
    code: str
    type: str = "about:blank"
    kafka_error: str | None = None
    hint: str | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a health answer. A check that is not ``required`` only marks the answer as degraded."""

    name: str
    ok: bool
    detail: str
    required: bool = True


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /livez`` and ``GET /readyz``; ``checks`` are listed when asked for or when one failed."""

    ok: bool
    degraded: bool
    checks: list[Check]
