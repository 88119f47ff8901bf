"""The whole of what a controller reads, taken in one go and kept as values: two of them show what happened in between.

Nothing is watched. ZooKeeper gives no picture of many znodes at one moment, so the znodes that everything hangs on
(who is registered, who is the controller) are read again at the end: if they moved, the picture is taken anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controllerd.core.model import NO_EPOCH, OUR_IDS
from controllerd.errors import BadZnode
from controllerd.pace import Pace
from controllerd.zk import codecs, paths
from controllerd.zk.access import Node, ZooKeeper
from controllerd.zk.reading import IN_FLIGHT, read_in_slices

ATTEMPTS: Final = 3
_SLICE: Final = 1_000
"""Znodes in one read."""
_SLICE_BESIDE_EVENTS: Final = 250
"""The same where a controller's own requests stand behind it in the queue of the session: then no more is under way."""
_SINGLE: Final = (
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.FEATURE,
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
    paths.CONFIG_BROKER_DEFAULTS,
)
_FOLDERS: Final = (paths.BROKER_IDS, paths.BROKER_TOPICS, paths.DELETE_TOPICS)
"""Znodes whose children are read too."""

_StatePaths = Mapping[str, tuple[str, ...]]
Tell = Callable[[int], None]
"""Is told how many znodes were read so far; of a picture that is taken anew it begins at none."""


def nobody(_read: int) -> None:
    """Does not want to know."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Znodes by path, and the names below those that have children (``partitions`` of each topic among them).

    A partition's folder is not kept: it exists when its state does.
    """

    nodes: Mapping[str, Node]
    children: Mapping[str, tuple[str, ...]]
    is_torn: bool = False
    """Brokers or the controller changed at each attempt: what it shows may never have been so at one moment."""
    state_paths: _StatePaths = field(default_factory=dict, repr=False)
    """The paths of the states of each topic, in the order of its znode."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The names below a znode; none if it does not exist."""
        return self.children.get(folder, ())

    @property
    def controller_epoch(self) -> int:
        """The term that it shows; ``NO_EPOCH`` without one, and for one that cannot be understood."""
        node = self.nodes.get(paths.CONTROLLER_EPOCH)
        try:
            return codecs.decode_controller_epoch(node.data) if node is not None else NO_EPOCH
        except BadZnode:
            return NO_EPOCH


async def take_picture(
    zk: ZooKeeper, last: Picture | None = None, pace: Pace | None = None, tell: Tell = nobody
) -> Picture:
    """Read everything; ``last``, if there is one, saves decoding the topics that have not changed since.

    :param pace: that of a reader beside a controller, on its session: little is asked for at a time. None: nobody
        else uses the session, which may lead far away, so that much is under way at a time
    :raises StoreUnavailable: the session is lost.
    """
    for _ in range(ATTEMPTS - 1):
        last = await _Taking(zk, last, pace, tell).picture()
        if not await _has_moved(zk, last):
            return last
    picture = await _Taking(zk, last, pace, tell).picture()
    is_torn = await _has_moved(zk, picture)
    return Picture(picture.nodes, picture.children, is_torn, picture.state_paths)


async def _has_moved(zk: ZooKeeper, picture: Picture) -> bool:
    registered = _brokers(await zk.children(paths.BROKER_IDS) or ())
    if set(registered) != set(picture.names(paths.BROKER_IDS)):
        return True
    watched = [paths.CONTROLLER, paths.CONTROLLER_EPOCH, *(f"{paths.BROKER_IDS}/{name}" for name in registered)]
    found = zip(watched, await zk.read(watched), strict=True)
    return any(node != picture.nodes.get(path) for path, node in found)


def _brokers(children: Iterable[str]) -> list[str]:
    """Leave the ids of controllerd out, so that no reader takes its registration for a broker's."""
    return [child for child in children if (paths.parse_broker_id(child) or 0) not in OUR_IDS]


class _Taking:
    """One picture while it is being taken."""

    def __init__(self, zk: ZooKeeper, last: Picture | None, pace: Pace | None, tell: Tell) -> None:
        self._zk = zk
        self._last = last
        self._pace = pace or Pace()
        self._slice, self._in_flight = (_SLICE, IN_FLIGHT) if pace is None else (_SLICE_BESIDE_EVENTS, 1)
        self._tell = tell
        self._count = 0
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    async def picture(self) -> Picture:
        for folder in _FOLDERS:
            names = await self._zk.children(folder)
            if names is not None:
                self._children[folder] = tuple(sorted(_brokers(names) if folder == paths.BROKER_IDS else names))
        topics = self._children.get(paths.BROKER_TOPICS, ())
        await self._read([*_SINGLE, *self._below(paths.BROKER_IDS), *self._below(paths.DELETE_TOPICS)])
        await self._read([paths.topic(name) for name in topics])
        await self._read([paths.topic_config(name) for name in topics])
        states = {name: await self._states_of(name) for name in topics if paths.topic(name) in self._nodes}
        await self._read([path for of_topic in states.values() for path in of_topic])
        for name, of_topic in states.items():
            await self._add_folder(name, of_topic)
        return Picture(self._nodes, self._children, state_paths=states)

    def _below(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self._children.get(folder, ())]

    async def _read(self, wanted: Sequence[str]) -> None:
        await read_in_slices(wanted, self._slice, self._read_slice, self._take, self._in_flight)

    async def _read_slice(self, part: Sequence[str]) -> list[Node | None]:
        await self._pace.breathe()
        return await self._zk.read(part)

    def _take(self, part: Sequence[str], nodes: Sequence[Node | None]) -> None:
        known = self._last.nodes if self._last is not None else {}
        for path, node in zip(part, nodes, strict=True):
            if node is not None:  # the same object for what stayed as it was: pictures are kept for a while
                last = known.get(path)
                self._nodes[path] = last if last == node and last is not None else node
        self._count += len(part)
        self._tell(self._count)

    async def _states_of(self, topic: str) -> tuple[str, ...]:
        """Where the states of a topic are; none for a topic whose znode cannot be understood."""
        await self._pace.breathe()
        path = paths.topic(topic)
        node, last = self._nodes[path], self._last
        if last is not None and last.nodes.get(path) == node and topic in last.state_paths:
            return last.state_paths[topic]
        try:
            image = codecs.decode_topic(topic, node.data, version=node.version)
        except BadZnode:
            return ()
        return tuple(f"{paths.topic_partitions(topic)}/{number}/state" for number in image.assignments)

    async def _add_folder(self, topic: str, states: Sequence[str]) -> None:
        """The partitions that have a state, as children of ``partitions``."""
        await self._pace.breathe()
        there = tuple(path.rsplit("/", 2)[1] for path in states if path in self._nodes)
        if there:
            self._children[paths.topic(topic)] = ("partitions",)
            self._children[paths.topic_partitions(topic)] = there
