"""How many partitions need attention: of each topic, and of all."""

from collections.abc import Iterable
from typing import NamedTuple

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import PartitionState
from controllerd.pace import Pace
from controllerd.status.per_topic import PerTopic
from controllerd.views import ClusterView, PartitionView, TopicView


class Counts(NamedTuple):
    """Partitions of one topic, or of all."""

    partitions: int = 0
    under_replicated: int = 0
    non_preferred: int = 0
    waiting: int = 0
    offline: int = 0
    reassigning: int = 0
    led: int = 0
    """Those that have, or had, a leader."""
    replication_factor: int = 0
    """The largest of them."""


def count(partitions: Iterable[PartitionView]) -> Counts:
    """The counts of some partitions."""
    number = under_replicated = non_preferred = waiting = offline = reassigning = led = factor = 0
    new, lost = PartitionState.NEW, PartitionState.OFFLINE
    for partition in partitions:  # one plain loop: right after a failover it runs over every partition
        _, state, (replicas, adding, removing), leadership, _, _ = partition
        number += 1
        if leadership is not None:  # as ``is_under_replicated`` and ``is_non_preferred`` say, without the calls
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
    """All of them together."""
    columns = list(zip(*counts, strict=True))
    if not columns:
        return Counts()
    return Counts._make([*map(sum, columns[:-1]), max(columns[-1])])


class PartitionCounter:
    """The counts of the newest picture."""

    def __init__(self) -> None:
        self._topics = PerTopic(count, add)
        self._total = Counts()
        self._version: int | None = None

    async def count(self, snapshot: ClusterView, pace: Pace | None = None) -> Counts:
        """Of all topics, with turns for the event loop in between."""
        version = snapshot.version
        if version != self._version:
            self._total, self._version = add((await self.by_topic(snapshot, pace)).values()), version
        return self._total

    async def of(self, view: TopicView, pace: Pace) -> Counts:
        """Of one topic."""
        return await self._topics.of(view, pace)

    async def by_topic(self, snapshot: ClusterView, pace: Pace | None = None) -> dict[str, Counts]:
        """Of each topic."""
        return await self._topics.all(snapshot, pace)


def is_under_replicated(partition: PartitionView) -> bool:
    """Whether the ISR is smaller than the replication factor; replicas being added do not count (KIP-455)."""
    leadership, assignment = partition.leadership, partition.assignment
    return leadership is not None and len(leadership.isr) < len(assignment.replicas) - len(assignment.adding)


def is_non_preferred(partition: PartitionView) -> bool:
    """Whether another broker than the preferred replica leads, or none (PreferredReplicaImbalanceCount)."""
    return is_imbalanced(partition)
