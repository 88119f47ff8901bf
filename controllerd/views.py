"""The views for readers: of partitions and topics, of the cluster, and of the work of this instance. Pure.

The views are immutable except ``ClusterView``, whose publisher (``controllerd.snapshot``) replaces the changed parts.
Explanations, plans, the HTTP endpoint, Metadata responses and metrics use these views and never the context.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Self

from controllerd.core.intents import NO_PAUSES, Pauses, PauseView
from controllerd.core.model import (
    NO_LEADER,
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)
from controllerd.core.progress import ProgressView
from controllerd.core.records import PartitionRecord, TopicRecord
from controllerd.core.releases import Release
from controllerd.core.replica_states import NO_REPLICAS, ReplicaStates
from controllerd.core.throttles import ThrottleView
from controllerd.record.moments import second

_BRIEF_S: Final = 0.05
"""Most events are handled within this time."""
_number = attrgetter("partition")


class Role(Enum):
    """The current role of this instance."""

    STARTING = "starting"
    STANDBY = "standby"
    ACTIVE = "active"
    OBSERVER = "observer"
    """Observes the active controller, and never contends for the role."""
    STOPPING = "stopping"


class PartitionView(NamedTuple):
    """The view of one partition. ``leadership`` is None while it has no state znode."""

    partition: int
    state: PartitionState
    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None
    offline_replicas: tuple[BrokerId, ...]
    replica_states: ReplicaStates = NO_REPLICAS
    """Empty in an observer, because only the active controller knows these states."""

    @classmethod
    def all_of(cls, topic: TopicRecord, offline: Callable[[PartitionRecord], tuple[BrokerId, ...]]) -> tuple[Self, ...]:
        """Return the views of all partitions of a topic in order of their number; ``offline`` gives offline replicas.

        One call makes all views, and without the constructor, because a topic may have many thousand partitions.
        """
        new = tuple.__new__
        views = [
            new(cls, (number, each.state, each.assignment, each.leadership, offline(each), each.replica_states))
            for number, each in topic.partitions.items()
        ]
        views.sort(key=_number)
        return tuple(views)

    @property
    def leader(self) -> BrokerId:
        """The leader; -1 without a leader or a state znode."""
        return NO_LEADER if self.leadership is None else self.leadership.leader

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The in-sync replicas; empty without a state znode."""
        return () if self.leadership is None else self.leadership.isr

    @property
    def online(self) -> frozenset[BrokerId]:
        """The replicas that may lead: on live brokers that are not shutting down, and not on failed log directories."""
        return frozenset(self.assignment.replicas) - frozenset(self.offline_replicas)


class DeletionView(NamedTuple):
    """The view of the deletion of a topic."""

    has_begun: bool
    """Whether brokers were sent that the topic is deleted."""
    held_up_by: str | None
    """The reason why the deletion waits; None if it does not."""
    deleting: tuple[BrokerId, ...]
    """The brokers that must delete replicas and have not answered."""
    is_hidden: bool = True
    """Whether the topic does not exist for clients any more."""
    replicas: Mapping[tuple[BrokerId, ReplicaState], int] = MappingProxyType({})
    """The number of replicas of the topic, by broker and state."""
    is_queued: bool = True
    """False while deletions are paused: the topic is served, and its deletion begins after the pause."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """The view of one topic."""

    name: str
    topic_id: str | None
    partitions: tuple[PartitionView, ...]
    """The partitions in the order of their number."""
    deletion: DeletionView | None = None
    """Set once the deletion of the topic was requested."""

    @property
    def is_hidden(self) -> bool:
        """Whether the topic does not exist for clients."""
        return self.deletion is not None and self.deletion.is_hidden


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds ``/controller``: a broker's own controller, or an instance of controllerd."""

    node_id: int
    instance: str | None
    since_ms: int

    @property
    def is_controllerd(self) -> bool:
        """Whether the holder is an instance of controllerd (it names its instance)."""
        return self.instance is not None

    @property
    def is_known(self) -> bool:
        """Whether ``/controller`` is readable."""
        return self.node_id >= 0

    def __str__(self) -> str:
        if not self.is_known:
            return "an unknown process (/controller is unreadable)"
        return f"controllerd {self.node_id}" if self.is_controllerd else f"broker {self.node_id} (built-in)"


@dataclass(slots=True)
class ClusterView:
    """The cluster in its latest publication by this instance."""

    node_id: int
    cluster_id: str = ""
    role: Role = Role.STARTING
    controller_epoch: int = 0
    holder: Holder | None = None
    reason: str = "starting"
    """The reason for the role, as a sentence."""
    our_entry: Broker | None = None
    """The entry of this instance among the live brokers; None in hidden mode."""
    registered: bool = False
    """Whether this instance is registered under ``/brokers/ids``, for brokers older than 3.0."""
    brokers: Mapping[BrokerId, Broker] = field(default_factory=lambda: MappingProxyType({}))
    shutting_down: frozenset[BrokerId] = frozenset()
    releases: Mapping[BrokerId, Release] = field(default_factory=lambda: MappingProxyType({}))
    """The Kafka release of each live broker that has answered ApiVersions."""
    quarantine: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    uncovered: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The listeners whose clients see no controller, each with the reason."""
    version: int = 0
    """Grows with every publication."""
    offline_partitions: int = 0
    topics: dict[str, TopicView] = field(default_factory=dict)
    names_by_id: dict[str, str] = field(default_factory=dict)
    deletions: dict[str, DeletionView] = field(default_factory=dict)
    """The deletions by topic."""
    pending_deletions: Mapping[BrokerId, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number of pending replica deletions of each broker."""
    pauses: Pauses = field(default_factory=lambda: NO_PAUSES)
    """The pauses that operators requested, by name (``core.intents``)."""
    throttle: ThrottleView | None = None
    """The throttle that this controller set for reassignments; throttles of other tools are not included."""
    progress: ProgressView = field(default_factory=ProgressView)
    """The times at which the current reassignments and deletions began."""

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller."""
        return self.role is Role.ACTIVE

    @property
    def staying(self) -> frozenset[BrokerId]:
        """The live brokers that are not shutting down."""
        return frozenset(self.brokers.keys() - self.shutting_down)

    def is_being_deleted(self, topic: str) -> bool:
        """Whether the topic is being deleted. A topic whose deletion is paused is not."""
        deletion = self.deletions.get(topic)
        return deletion is not None and deletion.is_queued

    def is_hidden(self, topic: str) -> bool:
        """Whether the topic is no longer served. A topic whose deletion waits for a reassignment is still served."""
        deletion = self.deletions.get(topic)
        return deletion is not None and deletion.is_hidden

    def partition(self, tp: TopicPartition) -> PartitionView | None:
        """One partition, or None."""
        topic = self.topics.get(tp.topic)
        if topic is None:
            return None
        at = bisect_left(topic.partitions, tp.partition, key=_number)
        found = topic.partitions[at] if at < len(topic.partitions) else None
        return found if found is not None and found.partition == tp.partition else None

    def quarantine_of(self, topic: str, partition: int | None = None) -> tuple[str, str] | None:
        """The quarantined znode (path, reason) of a topic, or of one of its partitions; None without one."""
        paths = [f"/brokers/topics/{topic}"]
        if partition is not None:
            tp = TopicPartition(topic, partition)
            paths += [f"/brokers/topics/{topic}/partitions/{partition}", tp.state_path]
        return next(((path, self.quarantine[path]) for path in paths if path in self.quarantine), None)


def describe_pause(pause: PauseView) -> str:
    """A pause as a phrase: the operator, the end (UTC) and the reason."""
    why = f": {pause.reason}" if pause.reason else ""
    return f"paused by {pause.by or 'an unknown operator'} until {second(pause.until_ms)}{why}"


# -- this instance -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The event task: the event that it handles, and the time of its last progress."""

    event: str | None = None
    """The name of the current event; None between events."""
    number: int | None = None
    running_s: float = 0.0
    """The seconds for which the event has been handled."""
    since_progress_s: float = 0.0
    """The seconds since an event began, ended, or finished a step."""
    state: int = 0
    """Kafka's ``ControllerState`` code of the current event; 0 between events."""

    @property
    def is_brief(self) -> bool:
        """Whether the current event is a short one, which readers would delay noticeably."""
        return self.event is not None and self.running_s < _BRIEF_S


class QueueView(NamedTuple):
    """The waiting events: their number, and the age of the oldest in seconds."""

    depth: int = 0
    oldest_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ChannelView:
    """The queue of control requests towards one broker."""

    depth: int = 0
    oldest_age_s: float = 0.0
    """The seconds for which the request at the head of the queue has waited for its response."""
    connected: bool = True
    error: str | None = None
    """The error of the last attempt; None once an attempt succeeded."""
    bytes_waiting: int | None = None
    """The estimated size of the waiting requests."""
    in_flight: str | None = None
    """The name of the request that waits for its response."""
    attempts: int = 0
    """The attempts of that request."""
    last_sent_s: float | None = None
    """The seconds since the last request was sent; None before the first."""
    last_answered_s: float | None = None


SessionStateName = Literal["connecting", "connected", "suspended", "lost", "closed"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """The ZooKeeper session; ``session_id`` is None before the first one."""

    state: SessionStateName
    session_id: int | None = None
    generation: int = 0
