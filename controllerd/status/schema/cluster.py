"""Brokers, topics, partitions and replicas, as ``controllerctl get``, ``describe`` and ``why`` show them."""

import msgspec

from controllerd.explain.answers import Transition, Why
from controllerd.status.schema.common import Answer
from controllerd.status.schema.status import BrokerStatus, DeletionStatus


class PartitionItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition; state names are Kafka's own.

    A page has thousands of these, and none can be part of a cycle. So the garbage collector does not track them.
    """

    topic: str
    partition: int
    state: str
    leader: int | None
    """-1 without a leader; null without a state znode."""
    leader_epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    offline: tuple[int, ...]
    """The replicas on brokers that are not live, or on a failed log directory."""
    zk_version: int | None
    preferred: int | None
    min_isr: int | None = None
    """``min.insync.replicas`` of the topic; null when this instance does not know it."""
    since: str | None = None
    """When the state or leader last changed; null when the recent records do not reach back so far."""
    last_event: int | None = None
    """The event that changed it last; null when the recent records do not reach back so far."""
    quarantine: str | None = None
    """Why its znode cannot be understood; null in the regular case."""


class PartitionList(Answer, frozen=True, kw_only=True):
    """``GET /v1/partitions``, in order of topic and number."""

    kind: str = "PartitionList"
    items: list[PartitionItem]
    total: int
    """How many partitions match on all pages together."""
    next_cursor: str | None = None
    """The cursor of the next page; null on the last page."""


class PendingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A control request to one broker that is not sent yet, or not answered yet."""

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
    """The control requests to the brokers of its replicas that are not answered yet."""


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
    """``GET /v1/replicas``, in order of topic, partition and position in the assignment."""

    kind: str = "ReplicaList"
    items: list[ReplicaItem]
    total: int
    next_cursor: str | None = None


class TopicItem(msgspec.Struct, frozen=True, kw_only=True):
    """One topic with the counts of its partitions."""

    topic: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    """The largest among its partitions."""
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
    """``GET /v1/topics/{topic}``; ``GET /v1/partitions?topic=`` lists its partitions."""

    kind: str = "Topic"
    topic: TopicItem
    transitions: list[Transition]


class BrokerItem(msgspec.Struct, frozen=True, kw_only=True):
    """One live broker, or a broker that an assignment names although it is not live."""

    id: int
    alive: bool
    status: BrokerStatus | None
    """Null while it is not live."""
    leaders: int
    preferred_leaders: int
    """How many partitions it would lead if each had its preferred leader."""
    replicas: int
    offline_replicas: int
    imbalance_percent: float
    """The share of its preferred leaderships that other brokers have (leader.imbalance.per.broker.percentage)."""
    leader_skew_percent: float
    """How many more (or, negative, fewer) partitions it leads than the mean of the live brokers."""


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


class WhyResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/partitions/{topic}/{partition}/why`` and ``GET /v1/topics/{topic}/why``."""

    kind: str = "Why"
    why: Why
    partition: PartitionItem | None
    """Null for a whole topic."""
    transitions: list[Transition]
