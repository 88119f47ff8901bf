"""Figures of topics and brokers: partitions by condition, and the load of each broker.

A figure of a topic is kept until the topic changes. A request therefore measures only topics that changed since the
request before, in slices between which the event loop may run.
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
"""Partitions of one slice, after which the event loop may run."""
_TOPICS_AT_ONCE: Final = 100
"""Figures of topics that are added up in one slice."""


class TopicFigures(Generic[T]):
    """One figure of each topic, and of all together. A figure is kept as long as the immutable view of the topic."""

    def __init__(self, measure: Callable[[Sequence[PartitionView]], T], merge: Callable[[Iterable[T]], T]) -> None:
        """``measure`` takes at most ``AT_ONCE`` partitions of one topic; ``merge`` adds up such results."""
        self._measure = measure
        self._merge = merge
        self._by_topic: dict[str, tuple[TopicView, T]] = {}
        self._measuring = asyncio.Lock()
        self._total: tuple[int, T] | None = None
        """The figure of all topics, with the version of the snapshot."""

    async def of(self, view: TopicView, slicer: Slicer) -> T:
        """Return the figure of one topic. If several callers need it at the same time, one of them measures it."""
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
        """Return the figures of the topics that exist now; changes of topics meanwhile do not count."""
        slicer = slicer or Slicer()
        figures: dict[str, T] = {}
        for view in list(snapshot.topics.values()):
            figures[view.name] = await self.of(view, slicer)
            await slicer.yield_to_loop()
        for gone in self._by_topic.keys() - snapshot.topics.keys():
            del self._by_topic[gone]
        return figures

    async def total(self, snapshot: ClusterView, slicer: Slicer | None = None) -> T:
        """Return the figure of all topics together."""
        version = snapshot.version
        if self._total is None or self._total[0] != version:
            slicer, parts = slicer or Slicer(), list[T]()
            for part in sliced(list((await self.all(snapshot, slicer)).values()), _TOPICS_AT_ONCE):
                parts.append(self._merge(part))
                await slicer.yield_to_loop()
            self._total = version, self._merge(parts)
        return self._total[1]


# -- counts of partitions ----------------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """The numbers of partitions of one topic, or of all topics."""

    partitions: int = 0
    under_replicated: int = 0
    non_preferred: int = 0
    waiting: int = 0
    offline: int = 0
    reassigning: int = 0
    led: int = 0
    """The partitions that have, or had, a leader."""
    replication_factor: int = 0
    """The largest one."""


def count_partitions(partitions: Iterable[PartitionView]) -> Counts:
    """Count these partitions by condition."""
    number = under_replicated = non_preferred = waiting = offline = reassigning = led = factor = 0
    new, lost = PartitionState.NEW, PartitionState.OFFLINE
    for partition in partitions:  # one plain loop: after a failover it runs over every partition
        _, state, (replicas, adding, removing), leadership, _, _ = partition
        number += 1
        if leadership is not None:  # ``is_under_replicated`` and ``is_imbalanced``, with fewer calls
            led += 1
            under_replicated += len(leadership[2]) < len(replicas) - len(adding)
            non_preferred += leadership[0] not in replicas[:1] and is_imbalanced(partition)
        waiting += state is new
        offline += state is lost
        if adding or removing:
            reassigning += 1
        factor = max(factor, len(replicas))
    return Counts(number, under_replicated, non_preferred, waiting, offline, reassigning, led, factor)


def add_counts(counts: Iterable[Counts]) -> Counts:
    """Add up counts."""
    columns = list(zip(*counts, strict=True))
    return Counts._make([*map(sum, columns[:-1]), max(columns[-1])]) if columns else Counts()


def is_under_replicated(partition: PartitionView) -> bool:
    """Whether the ISR is smaller than the replication factor; replicas being added do not count (KIP-455)."""
    leadership, assignment = partition.leadership, partition.assignment
    return leadership is not None and len(leadership.isr) < len(assignment.replicas) - len(assignment.adding)


# -- load of brokers ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class BrokerLoad:
    """The leaderships and replicas of one broker among some partitions."""

    leaders: int = 0
    preferred: int = 0
    """Partitions whose preferred replica is on the broker."""
    led_by_others: int = 0
    """Partitions among ``preferred`` that the broker does not lead."""
    replicas: int = 0
    offline: int = 0

    def add(self, other: "BrokerLoad") -> None:
        """Add the counts of another load."""
        self.leaders += other.leaders
        self.preferred += other.preferred
        self.led_by_others += other.led_by_others
        self.replicas += other.replicas
        self.offline += other.offline


BrokerLoads = dict[BrokerId, BrokerLoad]


def measure_loads(partitions: Iterable[PartitionView]) -> BrokerLoads:
    """Return the load of each broker by these partitions: one plain loop, as after a failover it runs over all."""
    places, offline, leaders, preferred, led_by_others = (list[BrokerId]() for _ in range(5))
    for partition in partitions:
        _, _, (replicas, _, _), leadership, away, _ = partition
        places += replicas
        offline += away
        preferred += replicas[:1]
        if leadership is not None:
            leaders.append(leadership[0])
            if leadership[0] not in replicas[:1] and is_imbalanced(partition):  # rare
                led_by_others += replicas[:1]
    columns = [Counter(column) for column in (leaders, preferred, led_by_others, places, offline)]
    brokers = {broker for column in columns for broker in column if broker >= 0}  # -1: no leader
    return {broker: BrokerLoad(*(column[broker] for column in columns)) for broker in brokers}


def add_loads(parts: Iterable[BrokerLoads]) -> BrokerLoads:
    """Add up loads by broker."""
    total: defaultdict[BrokerId, BrokerLoad] = defaultdict(BrokerLoad)
    for part in parts:
        for broker, load in part.items():
            total[broker].add(load)
    return dict(total)
