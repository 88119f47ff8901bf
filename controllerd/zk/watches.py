"""From a watch that fired to the event that it means. A watch carries no data: the handler reads the truth."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from controllerd.zk import paths
from controllerd.zk.access import Fired, Node, ZooKeeper
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
"""Znodes whose creation asks for something."""


def event_for(path: str, fired: Fired) -> Event | None:
    """The event that a watch means; None when it means nothing (yet)."""
    if fired is Fired.CHILD:
        kind = _CHILDREN.get(path)
        return kind() if kind is not None else None
    if path == paths.CONTROLLER:
        return Reelect() if fired is Fired.DELETED else ControllerChange()
    if fired is Fired.CHANGED or (fired is Fired.DELETED and path.startswith(f"{paths.BROKER_TOPICS}/")):
        # A topic that is deleted and created again between two events shows only here: its name never went missing.
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
    """Turns watches into events, and keeps those on ``/admin`` armed whatever happens to the znode.

    Kafka's own controller consumes a change or a deletion of ``/admin/reassign_partitions`` without arming the watch
    again, so that the next reassignment is not seen. Here every firing arms it anew, and a znode is announced whenever
    it says something else, so that a mended one is served. Our own changes are announced too; nothing comes of it.
    """

    def __init__(self, zk: ZooKeeper, put: Callable[[Event], None]) -> None:
        """``put`` takes events; it is called in the loop's thread."""
        self._zk = zk
        self._put = put
        self._announced: dict[str, tuple[int, int]] = {}

    def fired(self, path: str, fired: Fired) -> None:
        """A watch fired, in the present session."""
        if path in ADMIN_REQUESTS:
            self._zk.spawn(partial(self._rearm, path))
        elif (event := event_for(path, fired)) is not None:
            self._put(event)

    async def arm_admin(self) -> frozenset[str]:
        """Watch the znodes that ask for something; those that exist already, which then count as announced."""
        names = list(ADMIN_REQUESTS)
        nodes = await self._zk.read_and_watch(names, absent_too=True)
        return frozenset(path for path, node in zip(names, nodes, strict=True) if self._is_news(path, node) or node)

    async def _rearm(self, path: str) -> None:
        (node,) = await self._zk.read_and_watch([path], absent_too=True)
        if self._is_news(path, node):
            self._put(ADMIN_REQUESTS[path])

    def _is_news(self, path: str, node: Node | None) -> bool:
        if node is None or self._announced.get(path) == (node.czxid, node.version):
            return False
        self._announced[path] = (node.czxid, node.version)
        return True
