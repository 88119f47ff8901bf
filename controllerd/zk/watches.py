"""The events that follow from watches of ZooKeeper, and how watches are armed again.

A watch fires once and carries no data, so the event that it becomes carries none either: its
handler reads the znode anew, and arms the watch with this read. No change may fall between a read
and its watch, and none may stay unnoticed:

* A read arms its watch in the same request, or relative to the zxid of the read
  (``multiread.SetWatches``), so that a znode that has changed since fires at once.
* kazoo forgets all watches when the connection breaks, even if the session goes on. A change in
  this time fires nothing. So each reconnect enqueues ``Resync``, whose handlers read everything
  that is watched, which arms it again.
* A watch of an earlier session may fire late. ``connection`` drops it, because it is of another
  generation, and the new generation begins with an election that reads everything.
* A read in the background that arms a watch ends with its session, for the same reason.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from controllerd.zk import paths
from controllerd.zk.access import Fired, Znode, ZooKeeper
from events.base import Event
from events.cluster import BrokerChange, BrokerModifications, ControllerChange, Reelect
from events.elections import ConfigChange, ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import PartitionReassignmentIsrChange, ZkPartitionReassignment
from events.replicas import IsrChangeNotification, LogDirEventNotification
from events.topics import PartitionModifications, TopicChange, TopicDeletion

_CHILDREN: Final[Mapping[str, type[Event]]] = {
    paths.BROKER_IDS: BrokerChange,
    paths.BROKER_TOPICS: TopicChange,
    paths.DELETE_TOPICS: TopicDeletion,
    paths.ISR_CHANGES: IsrChangeNotification,
    paths.LOG_DIR_EVENTS: LogDirEventNotification,
    paths.CONFIG_CHANGES: ConfigChange,
}

ADMIN_REQUESTS: Final[Mapping[str, Event]] = {
    paths.REASSIGN_PARTITIONS: ZkPartitionReassignment(),
    paths.PREFERRED_REPLICA_ELECTION: ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER),
}
"""The znodes by which tools request something, each with the event of such a request."""


def event_for(path: str, fired: Fired) -> Event | None:
    """Return the event that follows from a watch; None if nothing follows."""
    if fired is Fired.CHILD:
        kind = _CHILDREN.get(path)
        return kind() if kind is not None else None
    if path == paths.CONTROLLER:
        return Reelect() if fired is Fired.DELETED else ControllerChange()
    if fired is Fired.CHANGED or (fired is Fired.DELETED and path.startswith(f"{paths.BROKER_TOPICS}/")):
        # A topic that is deleted and created again between two events is noticed by this watch alone: its name is
        # among the children both times.
        return _modification(path)
    return None


def _modification(path: str) -> Event | None:
    parent, _, child = path.rpartition("/")
    if parent == paths.BROKER_TOPICS:
        return PartitionModifications(child)
    if parent == paths.BROKER_IDS and (broker := paths.parse_broker_id(child)) is not None:
        return BrokerModifications(broker)
    tp = paths.parse_partition(path)
    return PartitionReassignmentIsrChange(tp) if tp is not None else None


class Watches:
    """Turns watches into events, and keeps the watches on ``/admin`` armed whatever happens to the znode.

    Kafka's controller does not arm the watch again after a change or a deletion of ``/admin/reassign_partitions``, so
    that it misses the next reassignment. Here each firing arms the watch anew, and each new content of the znode
    becomes an event, so that a request is served once its znode was corrected. Changes by this controller become events
    too; their handlers find nothing to do.
    """

    def __init__(self, zk: ZooKeeper, put: Callable[[Event], None]) -> None:
        """``put`` takes events; it is called in the loop's thread."""
        self._zk = zk
        self._put = put
        self._announced: dict[str, tuple[int, int]] = {}
        """The czxid and version of the newest content of each znode that became an event, by path."""

    def fired(self, path: str, fired: Fired) -> None:
        """Take a watch that fired in the present session."""
        if path in ADMIN_REQUESTS:
            self._zk.spawn(partial(self._rearm, path))
        elif (event := event_for(path, fired)) is not None:
            self._put(event)

    async def arm_admin(self) -> frozenset[str]:
        """Watch the znodes of requests; return the ones that exist, which then count as announced."""
        names = list(ADMIN_REQUESTS)
        nodes = await self._zk.read_and_watch(names, absent_too=True)
        for path, node in zip(names, nodes, strict=True):
            self._note_if_new(path, node)
        return frozenset(path for path, node in zip(names, nodes, strict=True) if node is not None)

    async def _rearm(self, path: str) -> None:
        (node,) = await self._zk.read_and_watch([path], absent_too=True)
        if self._note_if_new(path, node):
            self._put(ADMIN_REQUESTS[path])

    def _note_if_new(self, path: str, node: Znode | None) -> bool:
        """Count the content of a znode as announced; return whether it was not announced before."""
        if node is None or self._announced.get(path) == (node.czxid, node.version):
            return False
        self._announced[path] = (node.czxid, node.version)
        return True
