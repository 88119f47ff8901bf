"""Walks over the partitions of the snapshot for one page, a slice at a time, so that the event loop has its turns."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from controllerd.pace import Pace, sliced
from controllerd.status.counts import PartitionCounter
from controllerd.status.per_topic import AT_ONCE
from controllerd.status.reads.filters import (
    PartitionQuery,
    Predicate,
    glob,
    known_number,
    matching,
    predicates_of,
    sort_value,
)
from controllerd.status.reads.windows import NAMED_ONLY, Cut, Window
from controllerd.views import ClusterView, PartitionView, TopicView

_number = attrgetter("partition")


class Chosen(NamedTuple):
    """A partition on the page."""

    topic: TopicView
    partition: PartitionView


def topics_of(snapshot: ClusterView, pattern: str) -> Iterator[TopicView]:
    """Topics in order of their names; those that go meanwhile are left out. ``pattern`` empty: all."""
    matches = glob(pattern)
    for name in sorted(snapshot.topics):
        view = snapshot.topics.get(name) if matches is None or matches(name) else None
        if view is not None:
            yield view


class Selection:
    """One walk."""

    def __init__(self, query: PartitionQuery, counter: PartitionCounter, pace: Pace) -> None:
        """:raises Refused: the cursor is not one of such a list."""
        self._query = query
        self._counter = counter
        self._pace = pace
        self._value = sort_value(query.sort)
        self._window: Window[Chosen] = Window(f"partitions by {query.sort}", query.limit, query.cursor)

    async def cut(self, snapshot: ClusterView, min_isr: Mapping[str, int]) -> Cut[Chosen]:
        """The page. ``min_isr``: of the topics for which it is known."""
        for view in topics_of(snapshot, self._query.topic):
            await self._pace.breathe()
            predicates = predicates_of(self._query, min_isr.get(view.name))
            if not predicates:
                number: int | None = len(view.partitions)
            else:
                number = known_number(self._query, await self._counter.of(view, self._pace))
            if number is None:
                await self._count_and_take(view, predicates)
            elif number:
                self._window.total += number
                await self._take(view, predicates)
        return self._window.cut()

    def _start(self, view: TopicView) -> int:
        """Where the page may begin within a topic: what is on earlier pages is not looked at again."""
        after = self._window.after
        if self._value is not None or after is None or view.name > after[1]:
            return 0
        if view.name < after[1]:
            return len(view.partitions)
        return bisect_right(view.partitions, after[2], key=_number)

    async def _take(self, view: TopicView, predicates: Sequence[Predicate]) -> None:
        """What is on the page; what is on others is counted already."""
        for part in sliced(view.partitions[self._start(view) :], AT_ONCE):
            if self._value is None and self._window.is_full:
                return
            self._add(view, matching(part, predicates))
            await self._pace.breathe()

    async def _count_and_take(self, view: TopicView, predicates: Sequence[Predicate]) -> None:
        for part in sliced(view.partitions, AT_ONCE):
            found = matching(part, predicates)
            self._window.total += len(found)
            self._add(view, found)
            await self._pace.breathe()

    def _add(self, view: TopicView, found: Sequence[PartitionView]) -> None:
        name, value, window = view.name, self._value, self._window
        if value is not None:
            window.add([((value(each), name, each.partition), Chosen(view, each)) for each in found])
        elif not window.is_full:
            window.add([((NAMED_ONLY, name, each.partition), Chosen(view, each)) for each in found])
