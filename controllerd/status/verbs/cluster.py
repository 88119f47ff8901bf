"""Access to the cluster for operations: the published snapshot, calls of the event queue, waiting for their effect."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from operator import attrgetter
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from controllerd.core.model import NO_LEADER, TopicPartition
from controllerd.errors import NotController
from controllerd.slicer import Slicer
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.sources import StatusSources
from controllerd.views import PartitionView, TopicView
from events.base import Call, Reply
from events.reassignments import ListPartitionReassignments

T = TypeVar("T")

MAX_PARTITIONS: Final = 100_000
"""The most partitions that one request may name."""
BODY_LIMIT: Final = 1024 * 1024
"""The largest body, in bytes, of a request that names many partitions: decoding holds the event loop."""


class Withdrawable(Protocol):
    """A running operation that requests the changes of its partitions batch by batch."""

    def withdraw(self, partitions: Iterable[TopicPartition] | None) -> int:
        """Drop these partitions, or all (None), as far as they are not requested yet; return how many were dropped."""
        ...


class OperatedCluster:
    """The snapshot, the event queue and the running operations."""

    def __init__(self, sources: StatusSources) -> None:
        self.sources = sources
        self.withdrawable: Final[WeakSet[Withdrawable]] = WeakSet()
        """The running reassignments."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The published state of the cluster."""
        return self.sources.snapshot()

    def call(self, event: Call[Reply]) -> Awaitable[Reply]:
        """Enqueue a call; the awaitable gives its reply. :raises NotController: this instance does not lead."""
        return self.sources.queue.call(event)

    async def published(self) -> None:
        """Wait until the snapshot shows the effect of all calls so far.

        A call is answered before its snapshot is published, but no event is handled in between. So the answer of one
        more call, which changes nothing, comes after that snapshot. :raises NotController: the role was lost.
        """
        await self.call(ListPartitionReassignments(frozenset()))

    async def follow(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Call ``look`` for one snapshot after the other, until it returns that nothing is left to wait for.

        :raises NotController: this instance has lost the role, so that its snapshot is out of date.
        """
        while True:
            snapshot = self.snapshot
            seen = snapshot.version
            if not snapshot.is_active:
                raise NotController(snapshot.reason)
            if not await look():
                return
            if seen == snapshot.version:
                await snapshot.next_version()

    async def partitions(
        self, topics: Iterable[TopicView] | None = None
    ) -> AsyncIterator[tuple[TopicPartition, PartitionView]]:
        """Yield all partitions of these topics, or of all (None), by name and number."""
        slicer = Slicer()
        for topic in sorted(self.snapshot.topics.values() if topics is None else topics, key=attrgetter("name")):
            for view in topic.partitions:
                yield TopicPartition(topic.name, view.partition), view
                await slicer.yield_to_loop()


class WatchedPartitions:
    """The partitions for which an operation waits; a look checks the topics that changed since the last one."""

    def __init__(
        self, cluster: OperatedCluster, is_over: Callable[[TopicPartition, PartitionView | None], bool]
    ) -> None:
        """``is_over`` decides whether a partition is done; its view is None if it does not exist."""
        self._cluster = cluster
        self._is_over = is_over
        self._left: defaultdict[str, set[int]] = defaultdict(set)
        self._looked_at: dict[str, TopicView] = {}

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for these partitions as well."""
        for tp in partitions:
            self._left[tp.topic].add(tp.partition)
            self._looked_at.pop(tp.topic, None)

    async def look(self) -> bool:
        """Check the changed topics, and return whether any partition is left."""
        for name in sorted(self._left):
            topic = self._cluster.snapshot.topics.get(name)
            if topic is None or topic is not self._looked_at.get(name):
                await self._look_at(name, topic)
        return bool(self._left)

    async def _look_at(self, name: str, topic: TopicView | None) -> None:
        """Check one topic; its view is kept, so that no later view can have the same identity."""
        left, views = self._left[name], {}
        if topic is not None:
            self._looked_at[name] = topic
            views = {view.partition: view for view in topic.partitions}
        async for number in yielding_to_loop(sorted(left)):
            if self._is_over(TopicPartition(name, number), views.get(number)):
                left.discard(number)
        if not left:
            del self._left[name]
            self._looked_at.pop(name, None)


async def yielding_to_loop(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items one by one, and yield to the event loop in between when the time of a slice is used up."""
    slicer = Slicer()
    for each in items:
        yield each
        await slicer.yield_to_loop()


def leader_of(view: PartitionView | None) -> int:
    """Return the leader; negative without a leader, or without a state."""
    return NO_LEADER if view is None else view.leader


def named(subjects: Iterable[object]) -> str:
    """Return the first five names for a sentence, and the number of the other ones."""
    first = [str(subject) for subject in subjects]
    more = f" and {len(first) - 5} more" if len(first) > 5 else ""
    return ", ".join(first[:5]) + more
