"""Filters of partitions, named as in Kafka's own tools, and the selection of one page of the matching ones."""

import fnmatch
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import PartitionState, TopicPartition
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.paging import UNSORTED, Page, PageBuilder
from controllerd.status.http.routing import ListQuery, TopicGlob
from controllerd.status.reads.counts import AT_ONCE, Counts, TopicFigures, is_under_replicated
from controllerd.views import ClusterView, PartitionView, TopicView

Predicate = Callable[[PartitionView], bool]
BrokerFilter = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
PartitionOrder = Literal[
    "topic", "leader", "-leader", "isr", "-isr", "replicas", "-replicas", "leader_epoch", "-leader_epoch"
]


class PartitionQuery(ListQuery, frozen=True, kw_only=True):
    """The query of a list of partitions. A filter that is false selects the partitions that do not match it."""

    topic: TopicGlob = ""
    offline: Annotated[bool | None, Meta(description="Without a leader.")] = None
    waiting: Annotated[bool | None, Meta(description="New, without a first leader.")] = None
    under_replicated: Annotated[bool | None, Meta(description="A replica is not in the ISR.")] = None
    at_min_isr: Annotated[bool | None, Meta(description="The ISR is as small as min.insync.replicas allows.")] = None
    under_min_isr: Annotated[bool | None, Meta(description="The ISR is smaller than min.insync.replicas.")] = None
    non_preferred: Annotated[bool | None, Meta(description="The preferred replica does not lead them.")] = None
    reassigning: Annotated[bool | None, Meta(description="Replicas are being added or removed.")] = None
    leader: Annotated[BrokerFilter | None, Meta(description="Led by this broker; -1: without a leader.")] = None
    on: Annotated[BrokerFilter | None, Meta(description="With a replica on this broker.")] = None
    sort: Annotated[PartitionOrder, Meta(description="The order; -: the largest first.")] = "topic"

    @property
    def needs_min_isr(self) -> bool:
        """Whether ``min.insync.replicas`` of the topics is needed."""
        return self.at_min_isr is not None or self.under_min_isr is not None


_KEYS: Final[Mapping[str, Callable[[PartitionView], int]]] = {
    "leader": lambda partition: -2 if partition.leadership is None else partition.leadership.leader,
    "isr": lambda partition: -1 if partition.leadership is None else len(partition.leadership.isr),
    "replicas": lambda partition: len(partition.assignment.replicas),
    "leader_epoch": lambda partition: -1 if partition.leadership is None else partition.leadership.leader_epoch,
}


def sort_value(order: str) -> Callable[[PartitionView], int] | None:
    """Return the value that partitions are sorted by; None for the order of topics."""
    if order == "topic":
        return None
    value = _KEYS[order.removeprefix("-")]
    return value if not order.startswith("-") else lambda partition: -value(partition)


def glob(pattern: str) -> Callable[[str], object] | None:
    """Return a predicate for names; None if all names match."""
    return re.compile(fnmatch.translate(pattern)).match if pattern else None


def topics_matching(snapshot: ClusterView, pattern: str) -> Iterator[TopicView]:
    """Yield the matching topics by name, except topics deleted meanwhile. An empty pattern matches all."""
    matches = glob(pattern)
    for name in sorted(snapshot.topics):
        view = snapshot.topics.get(name) if matches is None or matches(name) else None
        if view is not None:
            yield view


def is_offline(partition: PartitionView) -> bool:
    """Whether the partition had a leader and has none."""
    return partition.state is PartitionState.OFFLINE


def is_waiting(partition: PartitionView) -> bool:
    """Whether the partition is new and waits for its first leader."""
    return partition.state is PartitionState.NEW


def predicates_of(query: PartitionQuery, min_isr: int | None) -> list[Predicate]:
    """Return the predicates for partitions of a topic with this ``min.insync.replicas`` (None: not known)."""
    wanted: list[tuple[bool | None, Predicate]] = [
        (query.offline, is_offline),
        (query.waiting, is_waiting),
        (query.under_replicated, is_under_replicated),
        (query.at_min_isr, lambda partition: _is_isr(partition, lambda isr: isr == min_isr)),
        (query.under_min_isr, lambda partition: _is_isr(partition, lambda isr: min_isr is not None and isr < min_isr)),
        (query.non_preferred, is_imbalanced),
        (query.reassigning, lambda partition: partition.assignment.is_being_reassigned),
    ]
    chosen = [_as_wanted(predicate, value) for value, predicate in wanted if value is not None]
    if query.leader is not None:
        chosen.append(lambda partition: partition.leadership is not None and partition.leadership[0] == query.leader)
    if query.on is not None:
        chosen.append(lambda partition: query.on in partition[2][0])  # by index: called for every partition
    return chosen


def _is_isr(partition: PartitionView, size_is: Callable[[int], bool]) -> bool:
    return partition.leadership is not None and size_is(len(partition.leadership.isr))


def _as_wanted(predicate: Predicate, value: bool) -> Predicate:
    return predicate if value else lambda partition: not predicate(partition)


def known_number(query: PartitionQuery, counts: Counts) -> int | None:
    """Return the number of matching partitions of a topic with these counts; None if the counts are not enough.

    With it, most topics are skipped, and partitions on other pages need no search.
    """
    filters = (
        (query.offline, counts.offline),
        (query.waiting, counts.waiting),
        (query.under_replicated, counts.under_replicated),
        (query.non_preferred, counts.non_preferred),
        (query.reassigning, counts.reassigning),
    )
    wanted = [(value, number) for value, number in filters if value is not None]
    if any(value and not number for value, number in wanted):
        return 0
    if len(wanted) != 1 or query.leader is not None or query.on is not None or query.needs_min_isr:
        return None
    value, number = wanted[0]
    return number if value else counts.partitions - number


def matching(partitions: Sequence[PartitionView], predicates: Sequence[Predicate]) -> Sequence[PartitionView]:
    """Return the partitions that satisfy every predicate."""
    for predicate in predicates:
        partitions = [partition for partition in partitions if predicate(partition)]
    return partitions


class ChosenPartition(NamedTuple):
    """A partition on a page."""

    topic: TopicView
    partition: PartitionView

    @property
    def tp(self) -> TopicPartition:
        """The name of the partition."""
        return TopicPartition(self.topic.name, self.partition.partition)


class PartitionSelection:
    """Selects one page from the partitions of a snapshot."""

    def __init__(self, query: PartitionQuery, counts: TopicFigures[Counts], slicer: Slicer) -> None:
        """:raises Refused: the cursor is not one of a list of partitions in this order."""
        self._query = query
        self._counts = counts
        self._slicer = slicer
        self._value = sort_value(query.sort)
        self._window: PageBuilder[ChosenPartition] = PageBuilder(
            f"partitions by {query.sort}", query.limit, query.cursor
        )

    async def cut(self, snapshot: ClusterView, min_isr: Mapping[str, int]) -> Page[ChosenPartition]:
        """Return the page. ``min_isr``: of the topics for which it is known."""
        for view in topics_matching(snapshot, self._query.topic):
            await self._slicer.yield_to_loop()
            predicates = predicates_of(self._query, min_isr.get(view.name))
            if not predicates:
                number: int | None = len(view.partitions)
            else:
                number = known_number(self._query, await self._counts.of(view, self._slicer))
            self._window.total += number or 0
            if number is None or number:
                await self._take(view, predicates, is_counted=number is not None)
        return self._window.build()

    async def _take(self, view: TopicView, predicates: Sequence[Predicate], *, is_counted: bool) -> None:
        """Take the partitions on the page; the search in a counted topic ends when the page is full."""
        for part in sliced(view.partitions[self._start(view) if is_counted else 0 :], AT_ONCE):
            if is_counted and self._value is None and self._window.is_full:
                return
            found = matching(part, predicates)
            self._window.total += 0 if is_counted else len(found)
            self._add(view, found)
            await self._slicer.yield_to_loop()

    def _start(self, view: TopicView) -> int:
        """Return the index where the page may begin within a topic; earlier pages need no search."""
        after = self._window.after
        if self._value is not None or after is None or view.name > after[1]:
            return 0
        if view.name < after[1]:
            return len(view.partitions)
        return bisect_right(view.partitions, after[2], key=attrgetter("partition"))

    def _add(self, view: TopicView, found: Sequence[PartitionView]) -> None:
        name, value, window = view.name, self._value, self._window
        if value is not None:
            window.add([((value(each), name, each.partition), ChosenPartition(view, each)) for each in found])
        elif not window.is_full:
            window.add([((UNSORTED, name, each.partition), ChosenPartition(view, each)) for each in found])
