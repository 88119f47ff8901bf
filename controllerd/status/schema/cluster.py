"""Brokers, topics, partitions and replicas: what ``controllerctl get`` and ``describe`` show."""

import msgspec

from controllerd.explain.answers import Transition
from controllerd.status.schema.common import Answer
from controllerd.status.schema.status import BrokerStatus, DeletionStatus


class PartitionItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition; state names are Kafka's own.

    Pages have thousands of them, and nothing in one can refer back to it: the garbage collector need not see them.
    """

    topic: str
    partition: int
    state: str
    leader: int | None
    """-1: nobody leads. Null: it has no state znode yet."""
    leader_epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    offline: tuple[int, ...]
    """Replicas on brokers that are not alive, or on a failed log directory."""
    zk_version: int | None
    preferred: int | None
    min_isr: int | None = None
    """``min.insync.replicas`` of the topic; null when it is not known here."""
    since: str | None = None
    """When the state or leader last changed; null when that is longer ago than what is remembered."""
    last_event: int | None = None
    """The event that changed it last; null when that is longer ago than what is remembered."""
    quarantine: str | None = None
    """Why its znode cannot be understood; null in the regular case."""


class PartitionList(Answer, frozen=True, kw_only=True):
    """``GET /v1/partitions``, in order of topic and number."""

    kind: str = "PartitionList"
    items: list[PartitionItem]
    total: int
    """How many partitions match, over all pages."""
    next_cursor: str | None = None
    """What to ask for next; null on the last page."""


class PendingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A control request that waits for one broker, or for its answer."""

    broker: int
    api: str
    partitions: int
    age_s: float
    attempts: int
    in_flight: bool


class PartitionDetail(Answer, frozen=True, kw_only=True):
    """``GET /v1/partitions/{topic}/{partition}``."""

    kind: str = "Partition"
    partition: PartitionItem
    transitions: list[Transition]
    pending: list[PendingRequest]
    """What waits for the brokers of its replicas."""


class ReplicaItem(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of one partition."""

    topic: str
    partition: int
    broker: int
    state: str
    """Kafka's name, such as OnlineReplica or ReplicaDeletionIneligible."""
    is_leader: bool
    in_isr: bool
    is_online: bool
    role: str
    """``replica``, ``adding`` or ``removing``."""


class ReplicaList(Answer, frozen=True, kw_only=True):
    """``GET /v1/replicas``, in order of topic, partition and place in the assignment."""

    kind: str = "ReplicaList"
    items: list[ReplicaItem]
    total: int
    next_cursor: str | None = None


class TopicItem(msgspec.Struct, frozen=True, kw_only=True):
    """One topic in numbers."""

    topic: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    """The largest of its partitions."""
    offline: int
    under_replicated: int
    non_preferred: int
    waiting: int
    reassigning: int
    deletion: DeletionStatus | None = None
    quarantine: str | None = None


class TopicList(Answer, frozen=True, kw_only=True):
    """``GET /v1/topics``, by name."""

    kind: str = "TopicList"
    items: list[TopicItem]
    total: int
    next_cursor: str | None = None


class TopicDetail(Answer, frozen=True, kw_only=True):
    """``GET /v1/topics/{topic}``; partitions are asked for with ``GET /v1/partitions?topic=``."""

    kind: str = "Topic"
    topic: TopicItem
    transitions: list[Transition]


class BrokerItem(msgspec.Struct, frozen=True, kw_only=True):
    """One live broker, or one that is named by an assignment and not alive."""

    id: int
    alive: bool
    status: BrokerStatus | None
    """Null while it is not alive."""
    leaders: int
    preferred_leaders: int
    """How many partitions it would lead if each had its preferred leader."""
    replicas: int
    offline_replicas: int
    imbalance_percent: float
    """Share of the partitions it should lead that others lead (leader.imbalance.per.broker.percentage)."""
    leader_skew_percent: float
    """By how much it leads more (or less) than the mean of the live brokers."""


class BrokerList(Answer, frozen=True, kw_only=True):
    """``GET /v1/brokers``, by id."""

    kind: str = "BrokerList"
    items: list[BrokerItem]
    registered_controller: int | None = None
    """The id under which this instance is registered among the brokers; it is not a broker and not in ``items``."""


class BrokerDetail(Answer, frozen=True, kw_only=True):
    """``GET /v1/brokers/{id}``."""

    kind: str = "Broker"
    broker: BrokerItem
    pending: list[PendingRequest]
    transitions: list[Transition] = []
