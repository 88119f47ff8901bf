"""The views that readers get: of partitions and topics, of the cluster, and of what this instance is doing. Pure.

The views are immutable, but for ``ClusterView``: its publisher (``controllerd.snapshot``) replaces what changed, and
every reader only reads. Explanations, plans, the HTTP endpoint, Metadata answers and metrics are made from these views
and never from the context.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

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
from controllerd.core.releases import Release
from controllerd.core.replica_states import NO_REPLICAS, ReplicaStates
from controllerd.core.throttles import ThrottleView
from controllerd.record.moments import second

_BRIEF_S: Final = 0.05
"""Most events are handled within this time."""
_number = attrgetter("partition")


class Role(Enum):
    """The present role of this instance."""

    STARTING = "starting"
    STANDBY = "standby"
    ACTIVE = "active"
    OBSERVER = "observer"
    """Watches the active controller, and never contends for the role."""
    STOPPING = "stopping"


class PartitionView(NamedTuple):
    """One partition as readers see it; ``leadership`` is None while it has no state znode. There are very many."""

    partition: int
    state: PartitionState
    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None
    offline_replicas: tuple[BrokerId, ...]
    replica_states: ReplicaStates = NO_REPLICAS
    """Empty in an instance that only observes: the states are known to the controller alone."""

    @property
    def leader(self) -> int:
        """The leader; -1 without one, or without a state znode."""
        return NO_LEADER if self.leadership is None else self.leadership.leader

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The in-sync replicas; empty without a state znode."""
        return () if self.leadership is None else self.leadership.isr

    @property
    def online(self) -> frozenset[BrokerId]:
        """The replicas that may lead: on live brokers that do not shut down, and on good disks."""
        return frozenset(self.assignment.replicas) - frozenset(self.offline_replicas)


class DeletionView(NamedTuple):
    """The deletion of a topic as readers see it."""

    has_begun: bool
    """Whether brokers have received that the topic is gone."""
    held_up_by: str | None
    """The reason for which the deletion cannot go on or end now; None while it is under way."""
    deleting: tuple[BrokerId, ...]
    """The brokers that have to delete replicas and have not answered."""
    is_hidden: bool = True
    """Whether the topic does not exist for clients, as in the answers of brokers."""
    replicas: Mapping[tuple[BrokerId, ReplicaState], int] = MappingProxyType({})
    """How many replicas of the topic there are, by broker and state."""
    is_queued: bool = True
    """False while deletions are paused: the topic goes on as any other, and its deletion begins afterwards."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as readers see it."""

    name: str
    topic_id: str | None
    partitions: tuple[PartitionView, ...]
    """In order of their number."""
    deletion: DeletionView | None = None
    """Set once the deletion of the topic was asked for."""

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
        """Whether ``/controller`` could be understood."""
        return self.node_id >= 0

    def __str__(self) -> str:
        if not self.is_known:
            return "somebody unknown (/controller cannot be understood)"
        return f"controllerd {self.node_id}" if self.is_controllerd else f"broker {self.node_id} (built-in)"


@dataclass(slots=True)
class ClusterView:
    """The cluster as this instance published it last."""

    node_id: int
    cluster_id: str = ""
    role: Role = Role.STARTING
    controller_epoch: int = 0
    holder: Holder | None = None
    reason: str = "starting"
    """The reason for the role, as a sentence for people."""
    our_entry: Broker | None = None
    """Our own entry among the live brokers; None in hidden mode."""
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
    """By topic."""
    debts: Mapping[BrokerId, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many replicas each broker must still delete, because they are no longer assigned to it."""
    pauses: Pauses = field(default_factory=lambda: NO_PAUSES)
    """Pauses that operators asked for, by name (``core/pauses.py``)."""
    throttle: ThrottleView | None = None
    """The bounds that we set for reassignments and will take away; those of other tools are not known here."""
    progress: ProgressView = field(default_factory=ProgressView)
    """Since when reassignments and deletions are under way."""

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller."""
        return self.role is Role.ACTIVE

    @property
    def staying(self) -> frozenset[BrokerId]:
        """The live brokers that do not shut down."""
        return frozenset(self.brokers.keys() - self.shutting_down)

    def is_being_deleted(self, topic: str) -> bool:
        """Whether the topic is being deleted; one whose deletion is paused goes on as any other."""
        deletion = self.deletions.get(topic)
        return deletion is not None and deletion.is_queued

    def is_hidden(self, topic: str) -> bool:
        """Whether the topic is no longer served; a topic whose deletion waits for a reassignment still is."""
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


def say_pause(pause: PauseView) -> str:
    """A pause as a sentence for people: who, until when (UTC), why."""
    why = f": {pause.reason}" if pause.reason else ""
    return f"paused by {pause.by or 'somebody'} until {second(pause.until_ms)}{why}"


# -- this instance -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The task that drains the queue: what it handles now, and when it last showed progress."""

    event: str | None = None
    """Name of the event in work; None between events."""
    number: int | None = None
    running_s: float = 0.0
    """For how long that event has been handled."""
    since_progress_s: float = 0.0
    """Seconds since an event began, ended, or finished one of its steps."""
    state: int = 0
    """Kafka's code of what the event in work is about (``ControllerState``); 0 between events."""

    @property
    def is_brief(self) -> bool:
        """Whether an event is in work that readers would delay noticeably; of one that takes long they get a share."""
        return self.event is not None and self.running_s < _BRIEF_S


class QueueView(NamedTuple):
    """The events that wait; ``oldest_age_s`` in seconds."""

    depth: int = 0
    oldest_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ChannelView:
    """The queue of control requests towards one broker."""

    depth: int = 0
    oldest_age_s: float = 0.0
    """How long the request at the head waits for its answer."""
    connected: bool = True
    error: str | None = None
    """Why the last attempt failed; None once one succeeded."""
    bytes_waiting: int | None = None
    """Estimated size of what waits."""
    in_flight: str | None = None
    """Name of the request whose answer is waited for."""
    attempts: int = 0
    """Of that request."""
    last_sent_s: float | None = None
    """How long ago a request left; None before the first."""
    last_answered_s: float | None = None


SessionStateName = Literal["connecting", "connected", "suspended", "lost", "closed"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """The ZooKeeper session; ``session_id`` is None before the first one."""

    state: SessionStateName
    session_id: int | None = None
    generation: int = 0
