"""What the metrics say of the cluster, counted in the published picture at the cost of the topics that changed."""

from typing import NamedTuple

from controllerd.core.model import ReplicaState
from controllerd.pace import Pace
from controllerd.status.counts import PartitionCounter
from controllerd.views import ClusterView, DeletionView


class Figures(NamedTuple):
    """The gauges of the peer's controller; all of them 0 where this instance is not the active controller."""

    topics: int = 0
    partitions: int = 0
    """Those that have, or had, a leader."""
    offline: int = 0
    imbalanced: int = 0
    """Not led by their preferred replica; topics to be deleted do not count."""
    topics_to_delete: int = 0
    replicas_to_delete: int = 0
    topics_ineligible: int = 0
    replicas_ineligible: int = 0
    brokers: int = 0


class PictureCounter:
    """Tells the figures of a picture by what is counted for all readers."""

    def __init__(self, counter: PartitionCounter) -> None:
        self._counter = counter

    async def figures(self, snapshot: ClusterView, pace: Pace) -> Figures:
        """Of the newest picture, with turns for the event loop in between."""
        if not snapshot.is_active:
            return Figures()
        by_topic = await self._counter.by_topic(snapshot, pace)
        queued = {name: view for name, view in snapshot.deletions.items() if view.is_queued}
        hidden = {name for name, view in queued.items() if view.is_hidden}
        deletions = queued.values()
        return Figures(
            topics=len(by_topic),
            partitions=sum(counted.led for counted in by_topic.values()),
            offline=snapshot.offline_partitions,
            imbalanced=sum(counted.non_preferred for name, counted in by_topic.items() if name not in hidden),
            topics_to_delete=len(queued),
            replicas_to_delete=sum(map(_left, deletions)),
            topics_ineligible=sum(view.held_up_by is not None for view in deletions),
            replicas_ineligible=sum(_ineligible(view) for view in deletions),
            brokers=len(snapshot.brokers),
        )


def _left(view: DeletionView) -> int:
    """Replicas of the topic that are not deleted yet."""
    gone = ReplicaState.DELETION_SUCCESSFUL
    return sum(number for (_, state), number in view.replicas.items() if state is not gone)


def _ineligible(view: DeletionView) -> int:
    """Replicas of the topic that cannot be deleted at the moment."""
    stuck = ReplicaState.DELETION_INELIGIBLE
    return sum(number for (_, state), number in view.replicas.items() if state is stuck)
