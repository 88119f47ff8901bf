"""The znodes of controllerd itself: pauses, a throttle, and the replicas that absent brokers still have to delete.

The active controller is their only writer. They are read and compared all the same before each write: a znode that
cannot be decoded may hold data that must not be lost, such as the pauses of a later version.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import structlog

from controllerd.core.intents import PausesRead
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.throttles import Throttle
from controllerd.errors import BadZnode
from controllerd.ports.results import Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Delete, Operation, SetData, Znode, ZooKeeper, missing_parents
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)

T = TypeVar("T")


class OperatorZnodes:
    """``ports.own_znodes.OperatorStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections

    async def read_pauses(self) -> PausesRead:
        """Return the stored pauses. :raises BadZnode: they cannot be decoded."""
        return await self._read(paths.PAUSES, codecs.decode_pauses) or PausesRead()

    async def write_pauses(self, pauses: PausesRead) -> None:
        """Replace the stored pauses; without any the znode is deleted. :raises BadZnode: it is left unchanged."""
        data = codecs.encode_pauses(pauses) if pauses.pauses else None
        await self._replace(paths.PAUSES, codecs.decode_pauses, data)

    async def read_throttle(self) -> Throttle | None:
        """Read the throttle that a controller set and has to remove. :raises BadZnode: it cannot be decoded."""
        return await self._read(paths.THROTTLE, codecs.decode_throttle)

    async def write_throttle(self, throttle: Throttle | None) -> None:
        """Replace the stored throttle; None deletes it. :raises BadZnode: it is left unchanged."""
        data = codecs.encode_throttle(throttle) if throttle is not None else None
        await self._replace(paths.THROTTLE, codecs.decode_throttle, data)

    async def _read(self, path: str, decode: Callable[[bytes | None], T]) -> T | None:
        (node,) = await self._zk.read([path])
        with self._rejections.judging(node):
            return decode(node.data) if node is not None else None

    async def _replace(self, path: str, decode: Callable[[bytes | None], object], data: bytes | None) -> None:
        """Replace a znode; None deletes it.

        :raises BadZnode: the present content cannot be decoded, or ZooKeeper refuses the write.
        """
        (node,) = await self._zk.read([path])
        operations: list[Operation] = []
        if node is not None:
            with self._rejections.judging(node):
                decode(node.data)
            operations = [Delete(path, node.version) if data is None else SetData(path, data, node.version)]
        elif data is not None:
            operations = [*await missing_parents(self._zk, path.rpartition("/")[0]), Create(path, data)]
        for result in await self._writer.write(operations):
            if not isinstance(result, Written):
                raise BadZnode(path, result.reason)


class PendingDeletionZnodes:
    """``ports.own_znodes.PendingDeletionStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections

    async def read_pending_deletions(self) -> Mapping[BrokerId, Mapping[TopicPartition, str | None]]:
        """Return the replicas that absent brokers must delete; a znode that cannot be decoded is left out."""
        children = await self._zk.children(paths.PENDING_DELETIONS) or []
        brokers = sorted(broker for child in children if (broker := paths.parse_broker_id(child)) is not None)
        nodes = await self._zk.read([paths.pending_deletions(broker) for broker in brokers])
        pending, broken = self._rejections.decode_all(brokers, nodes, _pending_of)
        for bad in broken:
            log.error("pending deletions cannot be decoded", path=bad.path, reason=bad.reason)
        return pending

    async def write_pending_deletions(self, pending: Mapping[BrokerId, Mapping[TopicPartition, str | None]]) -> None:
        """Replace the pending deletions of these brokers.

        :raises BadZnode: one is left unchanged, because it cannot be decoded or ZooKeeper refuses the write; the others
            are written.
        """
        brokers = list(pending)
        nodes = await self._zk.read([paths.pending_deletions(broker) for broker in brokers])
        _, broken = self._rejections.decode_all(brokers, nodes, _pending_of)
        left_alone = {bad.path for bad in broken}
        operations = [
            operation
            for broker, node in zip(brokers, nodes, strict=True)
            if paths.pending_deletions(broker) not in left_alone
            and (operation := _replacement(paths.pending_deletions(broker), pending[broker], node)) is not None
        ]
        if any(isinstance(operation, Create) for operation in operations):
            operations = [*await missing_parents(self._zk, paths.PENDING_DELETIONS), *operations]
        results = zip(operations, await self._writer.write(operations), strict=True)
        failed = [BadZnode(o.path, result.reason) for o, result in results if not isinstance(result, Written)]
        for bad in (*broken, *failed):
            raise bad  # only the first of them can be raised


def _pending_of(broker: BrokerId, node: Znode) -> Mapping[TopicPartition, str | None]:
    return codecs.decode_pending_deletions(broker, node.data)


def _replacement(path: str, pending: Mapping[TopicPartition, str | None], node: Znode | None) -> Operation | None:
    """Return the operation after which the znode of a broker holds exactly these deletions; None if none is needed."""
    if node is None:
        return Create(path, codecs.encode_pending_deletions(pending)) if pending else None
    if not pending:
        return Delete(path, node.version)
    return SetData(path, codecs.encode_pending_deletions(pending), node.version)
