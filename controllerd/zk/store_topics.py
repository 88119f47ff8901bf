"""Topic znodes: assignments, topic ids, and the deletion of topics."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from controllerd.core.model import TopicImage
from controllerd.errors import BadZnode
from controllerd.ports.results import Conflict, NewTopicZnodes, TopicsRead, WriteFailed, WriteResult, Written
from controllerd.ports.topics import TopicGuard
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Delete, Operation, SetData, Znode, ZooKeeper, read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_SLICE: Final = 100
"""Topics in one read: far fewer than states, because the znode of a topic of 10,000 partitions has 200 KB."""
_ATTEMPTS: Final = 5
"""Attempts to create a topic while another client keeps changing its configuration."""
_LISTINGS: Final = 10
"""Reads of children in flight."""


class TopicZnodes:
    """``ports.topics.TopicStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections
        self.guard: TopicGuard | None = None
        """Checks topics before they are written or deleted."""

    async def read_topic_names(self) -> frozenset[str]:
        """Read the children of ``/brokers/topics``, and watch them."""
        return frozenset(await self._zk.children(paths.BROKER_TOPICS, watch=True) or [])

    async def read_topics(self, names: Iterable[str]) -> TopicsRead:
        """Read and watch the topic znodes of these names; each that cannot be decoded is reported and left out."""
        topics: dict[str, TopicImage] = {}
        missing: set[str] = set()
        broken: list[BadZnode] = []

        def take(part: Sequence[str], nodes: Sequence[Znode | None]) -> None:
            for name, node in zip(part, nodes, strict=True):
                if node is None:
                    missing.add(name)
                    continue
                try:
                    topics[name] = codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)
                except BadZnode as error:
                    broken.append(error)
                    self._rejections.note(error, node)

        await read_in_slices(sorted(set(names)), _SLICE, self._read_topic_nodes, take)
        return TopicsRead(topics, frozenset(missing), tuple(broken))

    async def _read_topic_nodes(self, names: Sequence[str]) -> list[Znode | None]:
        return await self._zk.read_and_watch([paths.topic(name) for name in names])

    async def create_topics(self, new: Mapping[str, NewTopicZnodes]) -> Mapping[str, WriteResult]:
        """Create topic znodes with their configurations; only a conflict of a configuration is tried again."""
        results: dict[str, WriteResult] = {}
        pending = new
        for _ in range(_ATTEMPTS):
            groups = await self._creations(pending, results)
            written = await self._writer.write_groups(list(groups.values()))
            results.update(zip(groups, written, strict=True))
            pending = {name: new[name] for name in groups if isinstance(results[name], Conflict)}
            if not pending:
                return results
        nodes = await self._zk.read([paths.topic(name) for name in pending])
        failed = WriteFailed("another client keeps writing the configuration")
        there = Conflict("the topic exists already")
        return results | {name: there if node else failed for name, node in zip(pending, nodes, strict=True)}

    async def _creations(
        self, new: Mapping[str, NewTopicZnodes], results: dict[str, WriteResult]
    ) -> dict[str, list[Operation]]:
        """Return the operations that create each topic; a topic that cannot be created gets its result instead."""
        names = list(new)
        configs = await self._zk.read([paths.topic_config(name) for name in names])
        topics = await self._zk.read([paths.topic(name) for name in names])
        groups: dict[str, list[Operation]] = {}
        for name, config, topic in zip(names, configs, topics, strict=True):
            if topic is not None:
                results[name] = Conflict("the topic exists already")
                continue
            try:
                groups[name] = _creation(new[name], config)
            except BadZnode as error:
                results[name] = WriteFailed(error.reason)
        return groups

    async def write_topics(
        self, images: Mapping[str, TopicImage], *, growing: Collection[str] = ()
    ) -> Mapping[str, WriteResult]:
        """Rewrite topic znodes; one of a newer format fails, because a rewrite would lose its unknown fields."""
        if self.guard is not None:
            await self._check_writes(self.guard, images, growing)
        results: dict[str, WriteResult] = {}
        operations: dict[str, SetData] = {}
        for name, image in images.items():
            try:
                operations[name] = SetData(paths.topic(name), codecs.encode_topic(image), image.znode_version)
            except BadZnode as error:
                results[name] = WriteFailed(error.reason)
        written = await self._writer.write(list(operations.values()))
        return results | dict(zip(operations, written, strict=True))

    async def _check_writes(
        self, guard: TopicGuard, images: Mapping[str, TopicImage], growing: Collection[str]
    ) -> None:
        """Check the images against the znodes. A write at another version fails anyway, so it need not be checked."""
        names = list(images)
        nodes = await self._zk.read([paths.topic(name) for name in names])
        found = zip(map(images.__getitem__, names), nodes, strict=True)
        pairs = (
            (image, codecs.decode_topic(image.name, node.data, version=node.version))
            for image, node in found
            if node is not None and node.version == image.znode_version
        )
        guard.check_topics(pairs, growing=growing)

    async def read_partition_folders(self, topics: Iterable[str]) -> Mapping[str, frozenset[int]]:
        """Return, for each of these topics, the numbers of the partitions that have a znode."""
        wanted = sorted(set(topics))
        listed = await self._children([paths.topic_partitions(name) for name in wanted])
        numbers = (map(paths.parse_partition_number, children) for children in listed)
        return {name: frozenset(n for n in found if n is not None) for name, found in zip(wanted, numbers, strict=True)}

    async def delete_topics(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Delete the subtrees of topics, then their configurations, then the markers in ``/admin/delete_topics``.

        A marker must not be deleted before its topic: without it, no later controller would finish the deletion. As
        transactions are sent two at a time, each step ends before the next one begins, and only the topics for which
        it succeeded go on to the next.
        """
        names = sorted(set(topics))
        if self.guard is not None:
            self.guard.check_deletions(names)
        results = await self._delete_subtrees(names)
        for path_of in (paths.topic_config, paths.delete_topic):
            gone = [name for name, result in results.items() if isinstance(result, Written)]
            results.update(await self._delete_each({name: path_of(name) for name in gone}))
        return results

    async def _delete_each(self, path_of: Mapping[str, str]) -> Mapping[str, WriteResult]:
        """Delete one znode for each topic; a znode that does not exist counts as deleted."""
        nodes = await self._zk.read(list(path_of.values()))
        there = [name for name, node in zip(path_of, nodes, strict=True) if node is not None]
        written = await self._writer.write([Delete(path_of[name]) for name in there])
        return dict.fromkeys(path_of, Written(-1)) | dict(zip(there, written, strict=True))

    async def _delete_subtrees(self, names: Sequence[str]) -> dict[str, WriteResult]:
        """Delete children before parents. A topic with unknown znodes in it takes a second, slower pass."""
        results = await self._delete_all(await self._usual_subtrees(names))
        unusual = [name for name in names if not isinstance(results[name], Written)]
        subtrees = {name: await self._descendants(paths.topic(name)) for name in unusual}
        return results | await self._delete_all(subtrees)

    async def _delete_all(self, subtrees: Mapping[str, Sequence[str]]) -> dict[str, WriteResult]:
        """Delete all subtrees. The result of a topic is that of its own znode, which is deleted last.

        A topic without any znode counts as deleted.
        """
        operations = [Delete(path) for subtree in subtrees.values() for path in reversed(subtree)]
        written = await self._writer.write(operations)
        by_path = {operation.path: result for operation, result in zip(operations, written, strict=True)}
        return {name: by_path.get(paths.topic(name), Written(-1)) for name in subtrees}

    async def _usual_subtrees(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the known znodes of topics, parents first, found by one read of children per topic."""
        folders = [paths.topic_partitions(name) for name in names]
        subtrees: dict[str, list[str]] = {}
        for name, folder, children in zip(names, folders, await self._children(folders), strict=True):
            below = [f"{folder}/{child}" for child in children]
            subtrees[name] = [paths.topic(name), folder, *below, *(f"{path}/state" for path in below)]
        everything = [path for subtree in subtrees.values() for path in subtree]
        nodes = await self._zk.read(everything)
        there = {path for path, node in zip(everything, nodes, strict=True) if node is not None}
        return {name: [path for path in subtree if path in there] for name, subtree in subtrees.items()}

    async def _descendants(self, root: str) -> list[str]:
        """Return a znode and everything below it, parents first; nothing if it does not exist."""
        found, level = [], [root] if (await self._zk.read([root]))[0] is not None else []
        while level:
            found += level
            listed = await self._children(level)
            level = [f"{path}/{child}" for path, children in zip(level, listed, strict=True) for child in children]
        return found

    async def _children(self, parents: Sequence[str]) -> list[list[str]]:
        """Return the children of many znodes, a few reads in flight; none for a znode that does not exist."""
        turn = asyncio.Semaphore(_LISTINGS)

        async def list_one(path: str) -> list[str]:
            async with turn:
                return sorted(await self._zk.children(path) or [])

        return await asyncio.gather(*(list_one(path) for path in parents))


def _creation(new: NewTopicZnodes, stray: Znode | None) -> list[Operation]:
    """Return the operations that create a topic.

    The configuration comes first, because brokers read it as soon as they know the topic. ``stray`` is the
    configuration of an earlier topic of this name; it is replaced.

    :raises BadZnode: the topic cannot be encoded in a known format.
    """
    path, data = paths.topic_config(new.image.name), codecs.encode_config(new.configs)
    config = Create(path, data) if stray is None else SetData(path, data, stray.version)
    return [config, Create(paths.topic(new.image.name), codecs.encode_topic(new.image))]
