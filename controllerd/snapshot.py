"""What readers see: immutable records per topic, republished in proportion to the topics that changed.

The HTTP endpoint, Metadata answers and the CLI read this and never the context. The publisher runs in the event task;
readers run on the same event loop, so what they see between two awaits is one consistent picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition


class Role(Enum):
    """What this instance is at the moment."""

    STARTING = "starting"
    STANDBY = "standby"
    ACTIVE = "active"
    STOPPING = "stopping"


class PartitionView(NamedTuple):
    """One partition as readers see it; ``leadership`` is None while it has no state znode. There are very many."""

    partition: int
    state: PartitionState
    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None
    offline_replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as readers see it."""

    name: str
    topic_id: str | None
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds ``/controller``: a broker's own controller, or an instance of controllerd."""

    node_id: int
    instance: str | None
    since_ms: int

    @property
    def is_controllerd(self) -> bool:
        """Whether the holder is an instance of controllerd (it names its instance)."""
        return self.instance is not None

    def __str__(self) -> str:
        return f"controllerd {self.node_id}" if self.is_controllerd else f"broker {self.node_id} (built-in)"


@dataclass(slots=True)
class ClusterSnapshot:
    """The published picture. Replaced piecewise by the publisher; everybody else only reads."""

    node_id: int
    cluster_id: str = ""
    role: Role = Role.STARTING
    controller_epoch: int = 0
    holder: Holder | None = None
    reason: str = "starting"
    """Why this instance has its role, as a sentence for people."""
    our_entry: Broker | None = None
    """Our own entry among the live brokers; None in hidden mode."""
    brokers: Mapping[BrokerId, Broker] = field(default_factory=lambda: MappingProxyType({}))
    shutting_down: frozenset[BrokerId] = frozenset()
    quarantine: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    version: int = 0
    """Grows with every publication."""
    offline_partitions: int = 0
    topics: dict[str, TopicView] = field(default_factory=dict)
    names_by_id: dict[str, str] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller."""
        return self.role is Role.ACTIVE

    def partition(self, tp: TopicPartition) -> PartitionView | None:
        """One partition, or None."""
        topic = self.topics.get(tp.topic)
        return next((p for p in topic.partitions if p.partition == tp.partition), None) if topic else None


class Publication:
    """Brings a snapshot up to date with the context, at the cost of the topics that changed.

    Preparing takes as many steps as there are such topics, and the event loop may run in between. Readers see nothing
    of it before ``show``.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._left = list(context.take_dirty_topics())
        self._views: dict[str, TopicView | None] = {}

    def prepare_one(self) -> bool:
        """Make the picture of one more topic; whether there was one left."""
        if not self._left:
            return False
        name = self._left.pop()
        self._views[name] = view_topic(self._context, name) if name in self._context.topics else None
        return True

    def show(self, snapshot: ClusterSnapshot) -> None:
        """All of it at once."""
        for name, view in self._views.items():
            _replace_topic(snapshot, name, view)
        context = self._context
        snapshot.brokers = MappingProxyType(dict(context.brokers))
        snapshot.shutting_down = frozenset(context.shutting_down)
        snapshot.quarantine = MappingProxyType(dict(context.quarantine))
        snapshot.controller_epoch = context.epoch
        snapshot.offline_partitions = context.offline_partition_count()
        snapshot.version += 1


def publish(context: ControllerContext, snapshot: ClusterSnapshot) -> None:
    """Bring ``snapshot`` up to date with ``context`` in one go."""
    publication = Publication(context)
    while publication.prepare_one():
        pass
    publication.show(snapshot)


def _replace_topic(snapshot: ClusterSnapshot, name: str, view: TopicView | None) -> None:
    before = snapshot.topics.pop(name, None)
    if before is not None and before.topic_id is not None and snapshot.names_by_id.get(before.topic_id) == name:
        del snapshot.names_by_id[before.topic_id]  # unless another topic has this id by now
    if view is None:
        return
    snapshot.topics[name] = view
    if view.topic_id is not None:
        snapshot.names_by_id[view.topic_id] = name


def view_topic(context: ControllerContext, name: str) -> TopicView:
    """The immutable picture of one known topic, partitions in order of their number."""
    topic, offline = context.topics[name], context.liveness.offline
    new = tuple.__new__
    partitions = [
        new(PartitionView, (partition, record.state, record.assignment, record.leadership, offline(record)))
        for partition, record in topic.partitions.items()
    ]
    partitions.sort(key=_number)
    return TopicView(name, topic.topic_id, tuple(partitions))


_number = attrgetter("partition")
