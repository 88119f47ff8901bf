"""Topic znodes: assignments and topic ids."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controllerd.core.model import TopicImage
from controllerd.errors import BadZnode
from controllerd.ports import TopicsRead, WriteFailed, WriteResult
from controllerd.zk import codecs, paths
from controllerd.zk.access import Node, SetData, ZooKeeper
from controllerd.zk.reading import read_in_slices
from controllerd.zk.writer import FencedWriter

_SLICE: Final = 100
"""Topics in one read: far fewer than states, because a topic of 10,000 partitions has 200 KB."""


class TopicZnodes:
    """``ports.TopicStore`` over ZooKeeper."""

    _zk: ZooKeeper
    _writer: FencedWriter

    async def read_topic_names(self) -> frozenset[str]:
        """Children of ``/brokers/topics``."""
        return frozenset(await self._zk.children(paths.BROKER_TOPICS, watch=True) or [])

    async def read_topics(self, names: Iterable[str]) -> TopicsRead:
        """The topic znodes of these names; each that cannot be understood is reported and left out."""
        topics: dict[str, TopicImage] = {}
        missing: set[str] = set()
        broken: list[BadZnode] = []

        def take(part: Sequence[str], nodes: Sequence[Node | None]) -> None:
            for name, node in zip(part, nodes, strict=True):
                if node is None:
                    missing.add(name)
                    continue
                try:
                    topics[name] = codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)
                except BadZnode as error:
                    broken.append(error)

        await read_in_slices(sorted(set(names)), _SLICE, self._read_topic_nodes, take)
        return TopicsRead(topics, frozenset(missing), tuple(broken))

    async def _read_topic_nodes(self, names: Sequence[str]) -> list[Node | None]:
        return await self._zk.read_and_watch([paths.topic(name) for name in names])

    async def write_topics(self, images: Mapping[str, TopicImage]) -> Mapping[str, WriteResult]:
        """Rewrite topic znodes; one of a format newer than ours fails, because we would lose what it says."""
        results: dict[str, WriteResult] = {}
        operations: dict[str, SetData] = {}
        for name, image in images.items():
            try:
                operations[name] = SetData(paths.topic(name), codecs.encode_topic(image), image.znode_version)
            except BadZnode as error:
                results[name] = WriteFailed(error.reason)
        written = await self._writer.write(list(operations.values()))
        return results | dict(zip(operations, written, strict=True))
