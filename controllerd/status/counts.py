"""Counts over all partitions at the cost of the topics that changed: a status request must not stall the event loop."""

from typing import NamedTuple

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import PartitionState
from controllerd.pace import Pace
from controllerd.snapshot import ClusterSnapshot, PartitionView, TopicView


class Counts(NamedTuple):
    """Partitions of one topic, or of all."""

    partitions: int = 0
    under_replicated: int = 0
    non_preferred: int = 0
    waiting: int = 0


class PartitionCounter:
    """Remembers the counts of each topic's picture, which is immutable and replaced when the topic changes."""

    def __init__(self) -> None:
        self._by_topic: dict[str, tuple[TopicView, Counts]] = {}
        self._total = Counts()
        self._version: int | None = None

    async def prepare(self, snapshot: ClusterSnapshot, pace: Pace | None = None) -> None:
        """Count the topics that changed, with turns for the event loop in between; ``count`` is quick then."""
        if snapshot.version == self._version:
            return
        pace = pace or Pace()
        for view in list(snapshot.topics.values()):
            self._by_topic[view.name] = self._count_topic(view)
            await pace.breathe()

    def count(self, snapshot: ClusterSnapshot) -> Counts:
        """The counts of the snapshot's present version."""
        if snapshot.version != self._version:
            self._by_topic = {name: self._count_topic(view) for name, view in snapshot.topics.items()}
            self._total = Counts(*map(sum, zip(*(counts for _, counts in self._by_topic.values()), strict=True)))
            self._version = snapshot.version
        return self._total

    def _count_topic(self, view: TopicView) -> tuple[TopicView, Counts]:
        known = self._by_topic.get(view.name)
        return known if known is not None and known[0] is view else (view, count_topic(view))


def count_topic(view: TopicView) -> Counts:
    """The counts of one topic."""
    under_replicated = non_preferred = waiting = 0
    new = PartitionState.NEW
    for partition in view.partitions:  # one plain loop: right after a failover it runs over every partition
        _, state, (replicas, adding, _), leadership, _ = partition
        if leadership is not None:  # as ``is_under_replicated`` and ``is_non_preferred`` say, without the calls
            under_replicated += len(leadership[2]) < len(replicas) - len(adding)
            non_preferred += leadership[0] not in replicas[:1] and is_imbalanced(partition)
        waiting += state is new
    return Counts(len(view.partitions), under_replicated, non_preferred, waiting)


def is_under_replicated(partition: PartitionView) -> bool:
    """Whether the ISR is smaller than the replication factor; replicas being added do not count (KIP-455)."""
    leadership, assignment = partition.leadership, partition.assignment
    return leadership is not None and len(leadership.isr) < len(assignment.replicas) - len(assignment.adding)


def is_non_preferred(partition: PartitionView) -> bool:
    """Whether another broker than the preferred replica leads, or none (PreferredReplicaImbalanceCount)."""
    return is_imbalanced(partition)
