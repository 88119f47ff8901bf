"""Figures of every topic at the cost of the topics that changed: a request must not stall the event loop."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from controllerd.pace import Pace, sliced
from controllerd.views import ClusterView, PartitionView, TopicView

T = TypeVar("T")

AT_ONCE: Final = 1_000
"""Partitions that are looked at before the event loop may have a turn."""


class PerTopic(Generic[T]):
    """Remembers one figure of each topic's picture, which is immutable and replaced when the topic changes."""

    def __init__(self, measure: Callable[[Sequence[PartitionView]], T], merge: Callable[[Iterable[T]], T]) -> None:
        """``measure`` takes at most ``AT_ONCE`` partitions of one topic; ``merge`` puts such results together."""
        self._measure = measure
        self._merge = merge
        self._by_topic: dict[str, tuple[TopicView, T]] = {}
        self._measuring = asyncio.Lock()

    async def of(self, view: TopicView, pace: Pace) -> T:
        """The figure of one topic; several who ask at the same time wait for one of them."""
        known = self._by_topic.get(view.name)
        if known is not None and known[0] is view:
            return known[1]
        async with self._measuring:
            return await self._measured(view, pace)

    async def _measured(self, view: TopicView, pace: Pace) -> T:
        known = self._by_topic.get(view.name)
        if known is not None and known[0] is view:  # by now
            return known[1]
        parts: list[T] = []
        for part in sliced(view.partitions, AT_ONCE):
            parts.append(self._measure(part))
            await pace.breathe()
        figure = self._merge(parts)
        self._by_topic[view.name] = (view, figure)
        return figure

    async def all(self, snapshot: ClusterView, pace: Pace | None = None) -> dict[str, T]:
        """The figures of the topics that there are now, those of a topic that changes meanwhile from before."""
        pace = pace or Pace()
        figures: dict[str, T] = {}
        for view in list(snapshot.topics.values()):
            figures[view.name] = await self.of(view, pace)
            await pace.breathe()
        for gone in self._by_topic.keys() - snapshot.topics.keys():
            del self._by_topic[gone]
        return figures
