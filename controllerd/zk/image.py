"""An image of the cluster: the znodes that a controller reads, read in one pass and kept as values.

Two images show the changes in between. Nothing is watched. ZooKeeper cannot read many znodes as of one moment, so the
znodes that everything depends on (the registrations and the controller) are read again at the end: if they changed, the
image is read anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controllerd.core.model import NO_EPOCH, OUR_IDS
from controllerd.errors import BadZnode
from controllerd.slicer import Slicer
from controllerd.zk import codecs, paths
from controllerd.zk.access import IN_FLIGHT, Znode, ZooKeeper, read_in_slices

ATTEMPTS: Final = 3
_SLICE: Final = 1_000
"""Znodes in one read."""
_SLICE_BESIDE_EVENTS: Final = 250
"""The same on a session that a controller uses as well: its requests wait for each read, one at a time."""
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
Progress = Callable[[int], None]
"""Takes the number of znodes that were read so far; it begins again for an image that is read anew."""


def no_progress(_read: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Znodes by path, and the names of their children (``partitions`` of each topic among them).

    The znode of a partition is not kept: it exists if its state does.
    """

    nodes: Mapping[str, Znode]
    children: Mapping[str, tuple[str, ...]]
    is_torn: bool = False
    """Brokers or the controller changed at each attempt: the cluster may never have been like this at one moment."""
    state_paths: _StatePaths = field(default_factory=dict, repr=False)
    """The paths of the states of each topic, in the order of its znode."""

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names below a znode; none if it does not exist."""
        return self.children.get(folder, ())

    @property
    def controller_epoch(self) -> int:
        """The controller epoch; ``NO_EPOCH`` if the znode is missing or cannot be decoded."""
        node = self.nodes.get(paths.CONTROLLER_EPOCH)
        try:
            return codecs.decode_controller_epoch(node.data) if node is not None else NO_EPOCH
        except BadZnode:
            return NO_EPOCH


async def read_image(
    zk: ZooKeeper, last: ClusterImage | None = None, slicer: Slicer | None = None, report: Progress = no_progress
) -> ClusterImage:
    """Read all znodes of an image. Topics that have not changed since ``last`` are not decoded again.

    :param slicer: of a reader on the session of a controller, which reads one small slice at a time; None if no
        controller uses the session: then several large reads are in flight, because the server may be far away
    :param report: takes the progress
    :raises StoreUnavailable: the session is lost.
    """
    for _ in range(ATTEMPTS - 1):
        last = await _ImageBuilder(zk, last, slicer, report).read()
        if not await _has_changed(zk, last):
            return last
    image = await _ImageBuilder(zk, last, slicer, report).read()
    is_torn = await _has_changed(zk, image)
    return ClusterImage(image.nodes, image.children, is_torn, image.state_paths)


async def _has_changed(zk: ZooKeeper, image: ClusterImage) -> bool:
    registered = _brokers(await zk.children(paths.BROKER_IDS) or ())
    if set(registered) != set(image.names(paths.BROKER_IDS)):
        return True
    compared = [paths.CONTROLLER, paths.CONTROLLER_EPOCH, *(f"{paths.BROKER_IDS}/{name}" for name in registered)]
    found = zip(compared, await zk.read(compared), strict=True)
    return any(node != image.nodes.get(path) for path, node in found)


def _brokers(children: Iterable[str]) -> list[str]:
    """Return the children without the ids of controllerd, whose registrations are no brokers. Invalid ids stay."""
    return [child for child in children if (paths.parse_broker_id(child) or 0) not in OUR_IDS]


class _ImageBuilder:
    """An image while it is being read."""

    def __init__(self, zk: ZooKeeper, last: ClusterImage | None, slicer: Slicer | None, report: Progress) -> None:
        self._zk = zk
        self._last = last
        self._slicer = slicer or Slicer()
        self._slice, self._in_flight = (_SLICE, IN_FLIGHT) if slicer is None else (_SLICE_BESIDE_EVENTS, 1)
        self._report = report
        self._count = 0
        self._nodes: dict[str, Znode] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    async def read(self) -> ClusterImage:
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
        return ClusterImage(self._nodes, self._children, state_paths=states)

    def _below(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self._children.get(folder, ())]

    async def _read(self, wanted: Sequence[str]) -> None:
        await read_in_slices(wanted, self._slice, self._read_slice, self._take, self._in_flight)

    async def _read_slice(self, part: Sequence[str]) -> list[Znode | None]:
        await self._slicer.yield_to_loop()
        return await self._zk.read(part)

    def _take(self, part: Sequence[str], nodes: Sequence[Znode | None]) -> None:
        known = self._last.nodes if self._last is not None else {}
        for path, node in zip(part, nodes, strict=True):
            if node is not None:  # an unchanged znode is one object in all images, which are kept for a while
                last = known.get(path)
                self._nodes[path] = last if last == node and last is not None else node
        self._count += len(part)
        self._report(self._count)

    async def _states_of(self, topic: str) -> tuple[str, ...]:
        """Return the paths of the states of a topic; none for a topic whose znode cannot be decoded."""
        await self._slicer.yield_to_loop()
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
        """Add the partitions that have a state, as children of ``partitions``."""
        await self._slicer.yield_to_loop()
        there = tuple(path.rsplit("/", 2)[1] for path in states if path in self._nodes)
        if there:
            self._children[paths.topic(topic)] = ("partitions",)
            self._children[paths.topic_partitions(topic)] = there
