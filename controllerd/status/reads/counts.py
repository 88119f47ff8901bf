"""Figures of topics and brokers: how many partitions need attention, and how the load is spread over the brokers.

A figure is kept for each topic until the topic changes, so that a request costs no more than the topics that changed
since the one before, and never holds the event loop for long.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import BrokerId, PartitionState
from controllerd.slicer import Slicer, sliced
from controllerd.views import ClusterView, PartitionView, TopicView

T = TypeVar("T")

AT_ONCE: Final = 1_000
"""Partitions that are looked at before the event loop may have a turn."""


class PerTopic(Generic[T]):
    """Keeps one figure of each topic's view, which is immutable and replaced when the topic changes."""

    def __init__(self, measure: Callable[[Sequence[PartitionView]], T], merge: Callable[[Iterable[T]], T]) -> None:
        """``measure`` takes at most ``AT_ONCE`` partitions of one topic; ``merge`` puts such results together."""
        self._measure = measure
        self._merge = merge
        self._by_topic: dict[str, tuple[TopicView, T]] = {}
        self._measuring = asyncio.Lock()

    async def of(self, view: TopicView, slicer: Slicer) -> T:
        """Return the figure of one topic; of several callers at the same time one measures it."""
        known = self._by_topic.get(view.name)
        if known is not None and known[0] is view:
            return known[1]
        async with self._measuring:
            known = self._by_topic.get(view.name)
            if known is not None and known[0] is view:  # another caller has measured it
                return known[1]
            return await self._measured(view, slicer)

    async def _measured(self, view: TopicView, slicer: Slicer) -> T:
        parts: list[T] = []
        for part in sliced(view.partitions, AT_ONCE):
            parts.append(self._measure(part))
            await slicer.yield_to_loop()
        figure = self._merge(parts)
        self._by_topic[view.name] = (view, figure)
        return figure

    async def all(self, snapshot: ClusterView, slicer: Slicer | None = None) -> dict[str, T]:
        """Return the figures of the topics that exist now; a topic that changes meanwhile counts as before."""
        slicer = slicer or Slicer()
        figures: dict[str, T] = {}
        for view in list(snapshot.topics.values()):
            figures[view.name] = await self.of(view, slicer)
            await slicer.yield_to_loop()
        for gone in self._by_topic.keys() - snapshot.topics.keys():
            del self._by_topic[gone]
        return figures


# -- counts of partitions ----------------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """Partitions of one topic, or of all."""

    partitions: int = 0
    under_replicated: int = 0
    non_preferred: int = 0
    waiting: int = 0
    offline: int = 0
    reassigning: int = 0
    led: int = 0
    """The partitions that have, or had, a leader."""
    replication_factor: int = 0
    """The largest of them."""


def count(partitions: Iterable[PartitionView]) -> Counts:
    """Return the counts of some partitions."""
    number = under_replicated = non_preferred = waiting = offline = reassigning = led = factor = 0
    new, lost = PartitionState.NEW, PartitionState.OFFLINE
    for partition in partitions:  # one plain loop: right after a failover it runs over every partition
        _, state, (replicas, adding, removing), leadership, _, _ = partition
        number += 1
        if leadership is not None:  # as ``is_under_replicated`` and ``is_imbalanced`` say, without the calls
            led += 1
            under_replicated += len(leadership[2]) < len(replicas) - len(adding)
            non_preferred += leadership[0] not in replicas[:1] and is_imbalanced(partition)
        waiting += state is new
        offline += state is lost
        if adding or removing:
            reassigning += 1
        factor = max(factor, len(replicas))
    return Counts(number, under_replicated, non_preferred, waiting, offline, reassigning, led, factor)


def add(counts: Iterable[Counts]) -> Counts:
    """Return all of them together."""
    columns = list(zip(*counts, strict=True))
    return Counts._make([*map(sum, columns[:-1]), max(columns[-1])]) if columns else Counts()


class PartitionCounter:
    """Counts the partitions of the newest snapshot."""

    def __init__(self) -> None:
        self._topics = PerTopic(count, add)
        self._total = Counts()
        self._version: int | None = None

    async def count(self, snapshot: ClusterView, slicer: Slicer | None = None) -> Counts:
        """Return the counts of all topics."""
        version = snapshot.version
        if version != self._version:
            self._total, self._version = add((await self.by_topic(snapshot, slicer)).values()), version
        return self._total

    async def of(self, view: TopicView, slicer: Slicer) -> Counts:
        """Return the counts of one topic."""
        return await self._topics.of(view, slicer)

    async def by_topic(self, snapshot: ClusterView, slicer: Slicer | None = None) -> dict[str, Counts]:
        """Return the counts of each topic."""
        return await self._topics.all(snapshot, slicer)


def is_under_replicated(partition: PartitionView) -> bool:
    """Whether the ISR is smaller than the replication factor; replicas being added do not count (KIP-455)."""
    leadership, assignment = partition.leadership, partition.assignment
    return leadership is not None and len(leadership.isr) < len(assignment.replicas) - len(assignment.adding)


# -- load of brokers ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Load:
    """One broker's share of some partitions."""

    leaders: int = 0
    preferred: int = 0
    """Partitions whose preferred replica it is."""
    led_by_others: int = 0
    """Of those, how many another broker leads, or none."""
    replicas: int = 0
    offline: int = 0

    def add(self, other: "Load") -> None:
        """Add the counts of another load."""
        self.leaders += other.leaders
        self.preferred += other.preferred
        self.led_by_others += other.led_by_others
        self.replicas += other.replicas
        self.offline += other.offline


Loads = dict[BrokerId, Load]


def measure_loads(partitions: Iterable[PartitionView]) -> Loads:
    """Return the loads by these partitions; one plain loop, for after a failover it runs over all of them."""
    places, offline, leaders, preferred, led_by_others = (list[BrokerId]() for _ in range(5))
    for partition in partitions:
        _, _, (replicas, _, _), leadership, away, _ = partition
        places += replicas
        offline += away
        preferred += replicas[:1]
        if leadership is not None:
            leaders.append(leadership[0])
            if leadership[0] not in replicas[:1] and is_imbalanced(partition):  # most are led as they should be
                led_by_others += replicas[:1]
    columns = [Counter(column) for column in (leaders, preferred, led_by_others, places, offline)]
    brokers = {broker for column in columns for broker in column if broker >= 0}  # less than that: no leader
    return {broker: Load(*(column[broker] for column in columns)) for broker in brokers}


def add_loads(parts: Iterable[Loads]) -> Loads:
    """Return all of them together."""
    total: defaultdict[BrokerId, Load] = defaultdict(Load)
    for part in parts:
        _add_to(total, part)
    return dict(total)


def _add_to(total: defaultdict[BrokerId, Load], part: Loads) -> None:
    for broker, load in part.items():
        total[broker].add(load)


class LoadCounter:
    """Counts the loads of the brokers in the newest snapshot."""

    def __init__(self) -> None:
        self._topics = PerTopic(measure_loads, add_loads)
        self._loads: Loads = {}
        self._version: int | None = None

    async def loads(self, snapshot: ClusterView, slicer: Slicer) -> Loads:
        """Return the loads by broker; brokers without replicas are absent."""
        version = snapshot.version
        if version != self._version:
            total: defaultdict[BrokerId, Load] = defaultdict(Load)
            for part in (await self._topics.all(snapshot, slicer)).values():
                _add_to(total, part)
                await slicer.yield_to_loop()
            self._loads, self._version = dict(total), version
        return self._loads

    async def of(self, view: TopicView, slicer: Slicer) -> Loads:
        """Return the loads by broker of one topic."""
        return await self._topics.of(view, slicer)
