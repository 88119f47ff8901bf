"""The cluster for operations: the published snapshot, calls into the event queue, and waiting for their effect."""

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
"""The most that one request may name."""
BODY_LIMIT: Final = 1024 * 1024
"""Bytes of a request that names many: decoding more would hold the event loop for too long."""


class Withdrawable(Protocol):
    """A running operation that asks for its partitions in parts."""

    def withdraw(self, partitions: Iterable[TopicPartition] | None) -> int:
        """Give up what is not asked for yet of these partitions, None: of all; return how many."""
        ...


class OperatedCluster:
    """The snapshot, the queue and the clock, for operations."""

    def __init__(self, sources: StatusSources) -> None:
        self.sources = sources
        self.withdrawable: Final[WeakSet[Withdrawable]] = WeakSet()
        """The reassignments that run."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The published state of the cluster."""
        return self.sources.snapshot()

    def call(self, event: Call[Reply]) -> Awaitable[Reply]:
        """Put a call into the queue; awaiting gives its reply. :raises NotController: this instance does not lead."""
        return self.sources.queue.call(event)

    async def published(self) -> None:
        """Wait until the snapshot shows everything that calls so far have done.

        A call is answered before its snapshot is published, but nothing is handled in between: the answer of one more,
        which does nothing, comes after it. :raises NotController: this instance does not lead any more.
        """
        await self.call(ListPartitionReassignments(frozenset()))

    async def follow(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Look at one snapshot after the other while ``look`` returns that there is something to wait for.

        :raises NotController: this instance does not lead any more, so that its snapshot is out of date.
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
        """Yield all partitions of these topics, None: of all, by name and number."""
        slicer = Slicer()
        for topic in sorted(self.snapshot.topics.values() if topics is None else topics, key=attrgetter("name")):
            for view in topic.partitions:
                yield TopicPartition(topic.name, view.partition), view
                await slicer.yield_to_loop()


class WatchedPartitions:
    """Partitions that an operation waits for; each look visits those of topics that were published again."""

    def __init__(
        self, cluster: OperatedCluster, is_over: Callable[[TopicPartition, PartitionView | None], bool]
    ) -> None:
        """``is_over`` judges a partition, None for one that does not exist; once true, it is not visited again."""
        self._cluster = cluster
        self._is_over = is_over
        self._left: defaultdict[str, set[int]] = defaultdict(set)
        self._looked_at: dict[str, TopicView] = {}

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for these as well."""
        for tp in partitions:
            self._left[tp.topic].add(tp.partition)
            self._looked_at.pop(tp.topic, None)

    async def look(self) -> bool:
        """Return whether any is left."""
        for name in sorted(self._left):
            topic = self._cluster.snapshot.topics.get(name)
            if topic is None or topic is not self._looked_at.get(name):
                await self._look_at(name, topic)
        return bool(self._left)

    async def _look_at(self, name: str, topic: TopicView | None) -> None:
        """Look at one topic; its view is kept, so that no other can have its identity."""
        left, views = self._left[name], {}
        if topic is not None:
            self._looked_at[name] = topic
            views = {view.partition: view for view in topic.partitions}
        async for number in paced(sorted(left)):
            if self._is_over(TopicPartition(name, number), views.get(number)):
                left.discard(number)
        if not left:
            del self._left[name]
            self._looked_at.pop(name, None)


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and give the event loop its turns in between."""
    slicer = Slicer()
    for each in items:
        yield each
        await slicer.yield_to_loop()


def leader_of(view: PartitionView | None) -> int:
    """Return the leader; negative while there is none, or no state at all."""
    return NO_LEADER if view is None else view.leader


def named(subjects: Iterable[object]) -> str:
    """Return at most five of them for a sentence, and how many more there are."""
    first = [str(subject) for subject in subjects]
    more = f" and {len(first) - 5} more" if len(first) > 5 else ""
    return ", ".join(first[:5]) + more
