"""What readers see: immutable records per topic, republished in proportion to the topics that changed.

The HTTP endpoint, Metadata answers and the CLI read this and never the context. The publisher runs in the event task;
readers run on the same event loop, so what they see between two awaits is one consistent picture.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.intents import ThrottleView
from controllerd.core.model import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)
from controllerd.core.pauses import NO_PAUSES, Pauses, PauseView
from controllerd.core.progress import Age, ProgressView
from controllerd.core.releases import Release
from controllerd.core.replica_states import NO_REPLICAS, ReplicaStates
from controllerd.pace import sliced

_COUNTED_AT_ONCE: Final = 1_000


class Role(Enum):
    """What this instance is at the moment."""

    STARTING = "starting"
    STANDBY = "standby"
    ACTIVE = "active"
    OBSERVER = "observer"
    """Watches whoever leads, and never contends for the role."""
    STOPPING = "stopping"


class PartitionView(NamedTuple):
    """One partition as readers see it; ``leadership`` is None while it has no state znode. There are very many."""

    partition: int
    state: PartitionState
    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None
    offline_replicas: tuple[BrokerId, ...]
    replica_states: ReplicaStates = NO_REPLICAS
    """None exists where nobody but the controller knows them: an instance that only watches."""


class DeletionView(NamedTuple):
    """The deletion of a topic as readers see it."""

    has_begun: bool
    """Brokers were told that the topic is gone."""
    held_up_by: str | None
    """Why it cannot go on or not end now; None while it is under way."""
    deleting: tuple[BrokerId, ...]
    """The brokers that were told to delete their replicas and have not answered."""
    is_hidden: bool = True
    """Whether clients are told that the topic does not exist, as brokers tell them."""
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
    """Set once its deletion was asked for."""

    @property
    def is_hidden(self) -> bool:
        """Whether clients are told that there is no such topic."""
        return self.deletion is not None and self.deletion.is_hidden


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

    @property
    def is_known(self) -> bool:
        """Whether it could be understood who it is."""
        return self.node_id >= 0

    def __str__(self) -> str:
        if not self.is_known:
            return "somebody unknown (/controller cannot be understood)"
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
    """How many replicas each broker must still delete, because nobody assigns them to it any more."""
    pauses: Pauses = field(default_factory=lambda: NO_PAUSES)
    """What operators told us to leave alone for a while, by name (``core/pauses.py``)."""
    throttle: ThrottleView | None = None
    """The bounds that we set for reassignments and will take away; those of other tools are not known here."""
    progress: ProgressView = field(default_factory=ProgressView)
    """Since when reassignments and deletions are under way."""
    _waiting: list[asyncio.Future[None]] = field(default_factory=list, repr=False, compare=False)

    async def next_version(self) -> None:
        """Wait until another picture is shown."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def announce(self) -> None:
        """Another picture is shown: wake whoever waits for it."""
        self.version += 1
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def is_active(self) -> bool:
        """Whether this instance is the active controller."""
        return self.role is Role.ACTIVE

    def partition(self, tp: TopicPartition) -> PartitionView | None:
        """One partition, or None."""
        topic = self.topics.get(tp.topic)
        if topic is None:
            return None
        at = bisect_left(topic.partitions, tp.partition, key=_number)
        found = topic.partitions[at] if at < len(topic.partitions) else None
        return found if found is not None and found.partition == tp.partition else None


def say_pause(pause: PauseView) -> str:
    """A pause as a sentence for people: who, until when (UTC), why."""
    until = datetime.fromtimestamp(pause.until_ms / 1000, UTC).isoformat(timespec="seconds")
    why = f": {pause.reason}" if pause.reason else ""
    return f"paused by {pause.by or 'somebody'} until {until.replace('+00:00', 'Z')}{why}"


class Publication:
    """Brings a snapshot up to date with the context, at the cost of the topics that changed.

    Preparing takes as many steps as there are such topics, and the event loop may run in between. Readers see nothing
    of it before ``show``.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._left = list(context.take_dirty_topics())
        self._views: dict[str, TopicView | None] = {}
        self._counting = self._count()
        self._offline = 0

    def prepare_one(self) -> bool:
        """Make the picture of one more topic, or count a thousand more partitions; whether there was anything left."""
        if not self._left:
            return next(self._counting, False)
        name = self._left.pop()
        self._views[name] = view_topic(self._context, name) if name in self._context.topics else None
        return True

    def _count(self) -> Iterator[bool]:
        """Count the partitions in Offline, in steps: where nobody leads there may be very many."""
        for part in sliced(self._context.waiting_partitions(), _COUNTED_AT_ONCE):
            self._offline += sum(self._context.record(tp).state is PartitionState.OFFLINE for tp in part)
            yield True

    def show(self, snapshot: ClusterSnapshot, now_ms: int | None = None) -> None:
        """All of it at once; ``now_ms``, the wall clock, is the age of what began, None: nobody asks for ages."""
        context = self._context
        for name, view in self._views.items():
            _replace_topic(snapshot, name, view)
            if now_ms is not None:
                age = Age(now_ms, is_older=snapshot.controller_epoch != context.epoch)
                moving = _moving(view) if view is not None and context.being_reassigned else ()
                is_deleted = view is not None and view.deletion is not None
                snapshot.progress.note(name, moving, age, is_deleted=is_deleted)
        snapshot.brokers = MappingProxyType(dict(context.brokers))
        snapshot.releases = MappingProxyType(dict(context.releases))
        snapshot.shutting_down = frozenset(context.shutting_down)
        snapshot.quarantine = MappingProxyType(dict(context.quarantine))
        snapshot.debts = MappingProxyType({broker: len(context.debts.of(broker)) for broker in context.debts.brokers()})
        snapshot.pauses = context.intents.pauses
        snapshot.throttle = context.intents.throttle
        snapshot.controller_epoch = context.epoch
        snapshot.offline_partitions = self._offline
        snapshot.announce()


def publish(context: ControllerContext, snapshot: ClusterSnapshot) -> None:
    """Bring ``snapshot`` up to date with ``context`` in one go."""
    publication = Publication(context)
    while publication.prepare_one():
        pass
    publication.show(snapshot)


def _moving(view: TopicView) -> list[int]:
    return [each.partition for each in view.partitions if each.assignment.adding or each.assignment.removing]


def _replace_topic(snapshot: ClusterSnapshot, name: str, view: TopicView | None) -> None:
    before = snapshot.topics.pop(name, None)
    snapshot.deletions.pop(name, None)
    if before is not None and before.topic_id is not None and snapshot.names_by_id.get(before.topic_id) == name:
        del snapshot.names_by_id[before.topic_id]  # unless another topic has this id by now
    if view is None:
        return
    snapshot.topics[name] = view
    if view.deletion is not None:
        snapshot.deletions[name] = view.deletion
    if view.topic_id is not None:
        snapshot.names_by_id[view.topic_id] = name


def view_topic(context: ControllerContext, name: str) -> TopicView:
    """The immutable picture of one known topic, partitions in order of their number."""
    topic, offline = context.topics[name], context.liveness.offline
    new = tuple.__new__
    partitions = [
        new(PartitionView, (number, each.state, each.assignment, each.leadership, offline(each), each.replica_states))
        for number, each in topic.partitions.items()
    ]
    partitions.sort(key=_number)
    return TopicView(name, topic.topic_id, tuple(partitions), view_deletion(context, name))


def view_deletion(context: ControllerContext, name: str) -> DeletionView | None:
    """The deletion of a known topic; None when nobody asked for it."""
    book = context.deletions
    if name in book.waiting:
        return DeletionView(has_begun=False, held_up_by=book.paused, deleting=(), is_hidden=False, is_queued=False)
    if name not in book.queued:
        return None
    deleting, replicas = sorted(book.deleting.get(name, ())), _count_replicas(context, name)
    hidden = is_hidden(context, name)
    return DeletionView(name in book.started, book.halted.get(name), tuple(deleting), hidden, replicas)


def _count_replicas(context: ControllerContext, name: str) -> Mapping[tuple[BrokerId, ReplicaState], int]:
    """By broker and state; few of very many partitions differ in the states of their replicas."""
    alike = Counter(record.replica_states for record in context.topics[name].partitions.values())
    counts: Counter[tuple[BrokerId, ReplicaState]] = Counter()
    for states, number in alike.items():
        for replica in states.items():
            counts[replica] += number
    return MappingProxyType(counts)


_number = attrgetter("partition")
