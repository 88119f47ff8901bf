"""The published snapshot of the context. An update costs only the topics that changed.

The HTTP endpoint, Metadata responses and the CLI read the snapshot and never the context. The publisher runs in the
event task. Readers run on the same event loop, so they read one consistent image of the cluster between two awaits.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.model import BrokerId, PartitionState, ReplicaState
from controllerd.core.progress import Age
from controllerd.slicer import sliced
from controllerd.views import ClusterView, DeletionView, PartitionView, TopicView

_COUNTED_AT_ONCE: Final = 1_000


@dataclass(slots=True)
class ClusterSnapshot(ClusterView):
    """The view of the cluster, with which readers can wait for the next version."""

    _waiting: list[asyncio.Future[None]] = field(default_factory=list, repr=False, compare=False)

    async def next_version(self) -> None:
        """Wait until the next version is published."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def announce(self) -> None:
        """Publish the next version, and wake every reader that waits for it."""
        self.version += 1
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class Publication:
    """Updates a snapshot from the context, at the cost of the topics that changed.

    The preparation takes one step per changed topic, and the event loop may run between the steps. ``show`` publishes
    all of it at once.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._left = list(context.take_dirty_topics())
        self._views: dict[str, TopicView | None] = {}
        self._counting = self._count()
        self._offline = 0

    def prepare_one(self) -> bool:
        """Make the view of one more topic, or count a thousand more partitions. Returns whether there was work left."""
        if not self._left:
            return next(self._counting, False)
        name = self._left.pop()
        self._views[name] = view_topic(self._context, name) if name in self._context.topics else None
        return True

    def _count(self) -> Iterator[bool]:
        """Count the offline partitions, in steps: after failures of brokers there may be very many."""
        for part in sliced(self._context.waiting_partitions(), _COUNTED_AT_ONCE):
            self._offline += sum(self._context.record(tp).state is PartitionState.OFFLINE for tp in part)
            yield True

    def show(self, snapshot: ClusterSnapshot, now_ms: int | None = None) -> None:
        """Publish everything at once. ``now_ms`` (wall clock) dates new reassignments and deletions; None: no dates."""
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
        snapshot.pending_deletions = MappingProxyType(
            {broker: len(context.pending_deletions.of(broker)) for broker in context.pending_deletions.brokers()}
        )
        snapshot.pauses = context.intents.pauses
        snapshot.throttle = context.intents.throttle
        snapshot.controller_epoch = context.epoch
        snapshot.offline_partitions = self._offline
        snapshot.announce()


def publish(context: ControllerContext, snapshot: ClusterSnapshot) -> None:
    """Update ``snapshot`` from ``context`` in one step."""
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
        del snapshot.names_by_id[before.topic_id]  # unless another topic has this id now
    if view is None:
        return
    snapshot.topics[name] = view
    if view.deletion is not None:
        snapshot.deletions[name] = view.deletion
    if view.topic_id is not None:
        snapshot.names_by_id[view.topic_id] = name


def view_topic(context: ControllerContext, name: str) -> TopicView:
    """Return the view of one known topic."""
    topic = context.topics[name]
    partitions = PartitionView.all_of(topic, context.liveness.offline)
    return TopicView(name, topic.topic_id, partitions, view_deletion(context, name))


def view_deletion(context: ControllerContext, name: str) -> DeletionView | None:
    """Return the view of the deletion of a known topic; None if its deletion was not requested."""
    book = context.deletions
    if name in book.waiting:
        return DeletionView(has_begun=False, held_up_by=book.paused, deleting=(), is_hidden=False, is_queued=False)
    if name not in book.queued:
        return None
    deleting, replicas = sorted(book.deleting.get(name, ())), _count_replicas(context, name)
    hidden = is_hidden(context, name)
    return DeletionView(name in book.started, book.halted.get(name), tuple(deleting), hidden, replicas)


def _count_replicas(context: ControllerContext, name: str) -> Mapping[tuple[BrokerId, ReplicaState], int]:
    """Count the replicas by broker and state. Most partitions have equal states, so equal ones are counted together."""
    alike = Counter(record.replica_states for record in context.topics[name].partitions.values())
    counts: Counter[tuple[BrokerId, ReplicaState]] = Counter()
    for states, number in alike.items():
        for replica in states.items():
            counts[replica] += number
    return MappingProxyType(counts)
