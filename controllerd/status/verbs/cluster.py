"""What operations see of the cluster and do to it: the published picture, calls into the queue, and waiting."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from operator import attrgetter
from typing import Final

from controllerd.core.model import NO_LEADER, TopicPartition
from controllerd.errors import NotController
from controllerd.pace import Pace
from controllerd.planning.plans import Outcome
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.sources import StatusSources
from controllerd.views import PartitionView, TopicView
from events.base import Call, Reply
from events.reassignments import ListPartitionReassignments

MAX_PARTITIONS: Final = 100_000
"""That one request may name."""
BODY_LIMIT: Final = 1024 * 1024
"""Bytes of a request that names many: decoding more would hold the event loop for too long."""


class Cluster:
    """The picture, the queue and the clock, for operations."""

    def __init__(self, sources: StatusSources) -> None:
        self.sources = sources

    @property
    def snapshot(self) -> ClusterSnapshot:
        """What readers see."""
        return self.sources.snapshot()

    def call(self, event: Call[Reply]) -> Awaitable[Reply]:
        """Put a call into the queue; awaiting gives its reply. :raises NotController: this instance does not lead."""
        return self.sources.queue.call(event)

    async def shown(self) -> None:
        """Wait until the picture shows everything that calls so far have done.

        A call is answered before its picture is shown, but nothing is handled in between: the answer of one more, which
        does nothing, comes after it. :raises NotController: this instance does not lead any more.
        """
        await self.call(ListPartitionReassignments(frozenset()))

    async def follow(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Look at one picture after the other while there is something to wait for.

        :raises NotController: this instance does not lead any more, so that its picture follows the cluster no longer.
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

    async def partitions(self, topics: Iterable[TopicView]) -> AsyncIterator[tuple[TopicPartition, PartitionView]]:
        """All partitions of these topics, by name and number; the loop gets its turns in between."""
        pace = Pace()
        for topic in sorted(topics, key=attrgetter("name")):
            for view in topic.partitions:
                yield TopicPartition(topic.name, view.partition), view
                await pace.breathe()


class Watched:
    """Partitions that something is waited for; each look visits those of topics that were published again."""

    def __init__(self, cluster: Cluster, is_over: Callable[[TopicPartition, PartitionView | None], bool]) -> None:
        """``is_over`` judges a partition, None for one that does not exist; what is over is not looked at again."""
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
        """Whether anything is left."""
        pace = Pace()
        for name in sorted(self._left):
            topic = self._cluster.snapshot.topics.get(name)
            if topic is None or topic is not self._looked_at.get(name):
                await self._look_at(name, topic, pace)
        return bool(self._left)

    async def _look_at(self, name: str, topic: TopicView | None, pace: Pace) -> None:
        """The view is kept, so that no other can have its identity."""
        left, views = self._left[name], {}
        if topic is not None:
            self._looked_at[name] = topic
            views = {view.partition: view for view in topic.partitions}
        for number in sorted(left):
            if self._is_over(TopicPartition(name, number), views.get(number)):
                left.discard(number)
            await pace.breathe()
        if not left:
            del self._left[name]
            self._looked_at.pop(name, None)


def leader_of(view: PartitionView | None) -> int:
    """The leader; negative while there is none, or no state at all."""
    return NO_LEADER if view is None else view.leader


def item_of(tp: TopicPartition, outcome: Outcome) -> TaskItem:
    """One partition of an operation, with what becomes of it."""
    error = outcome.error.name if outcome.error is not None else None
    return TaskItem(subject=str(tp), state=outcome.state, detail=outcome.detail, kafka_error=error)


def named(subjects: Iterable[object]) -> str:
    """At most five of them for a sentence, and how many more there are."""
    first = [str(subject) for subject in subjects]
    more = f" and {len(first) - 5} more" if len(first) > 5 else ""
    return ", ".join(first[:5]) + more
