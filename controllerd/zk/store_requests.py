"""What tools ask the controller for by znodes: deletions, reassignments, elections, changed configurations.

And what the controller asks itself to remember: the replicas that absent brokers still have to delete.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import TypeVar

import structlog

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode
from controllerd.results import (
    ConfigChangesRead,
    Conflict,
    ElectionsRead,
    ReassignmentsRead,
    WriteFailed,
    WriteResult,
    Written,
)
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, Create, Delete, Node, Operation, SetData, ZooKeeper
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)

T = TypeVar("T")


class RequestZnodes:
    """The part of ``ports.AdminStore`` that is about requests by znode."""

    _zk: ZooKeeper
    _writer: FencedWriter
    _rejections: Rejections

    # -- deletions ---------------------------------------------------------------------------------------------------

    async def read_topic_deletions(self) -> frozenset[str]:
        """Children of ``/admin/delete_topics``."""
        return frozenset(await self._zk.children(paths.DELETE_TOPICS, watch=True) or [])

    async def delete_deletion_markers(self, topics: Iterable[str]) -> None:
        """Drop requests to delete topics."""
        await self._drop([paths.delete_topic(topic) for topic in sorted(set(topics))])

    # -- reassignments and elections ---------------------------------------------------------------------------------

    async def read_reassignments(self) -> ReassignmentsRead | None:
        """``/admin/reassign_partitions``; it stays watched. :raises BadZnode: it cannot be understood."""
        node = await self._watched(paths.REASSIGN_PARTITIONS)
        with self._rejections.judging(node):
            return None if node is None else ReassignmentsRead(codecs.decode_reassignments(node.data), node.version)

    async def write_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...]], version: int
    ) -> WriteResult:
        """Keep only these entries; without any the znode is deleted."""
        path = paths.REASSIGN_PARTITIONS
        operation: Operation = Delete(path, version)
        if targets:
            operation = SetData(path, codecs.encode_reassignments(targets), version)
        (result,) = await self._writer.write([operation])
        return result

    async def read_preferred_election(self) -> ElectionsRead | None:
        """``/admin/preferred_replica_election``; it stays watched. :raises BadZnode: it cannot be understood."""
        node = await self._watched(paths.PREFERRED_REPLICA_ELECTION)
        with self._rejections.judging(node):
            return None if node is None else ElectionsRead(codecs.decode_preferred_election(node.data), node.version)

    async def delete_preferred_election(self, version: int = ANY_VERSION) -> bool:
        """Delete ``/admin/preferred_replica_election`` at this version; false if it has another one by now."""
        path = paths.PREFERRED_REPLICA_ELECTION
        (node,) = await self._zk.read([path])
        if node is None:
            return True
        (result,) = await self._writer.write([Delete(path, version)])
        if isinstance(result, WriteFailed):
            log.warning("request was not deleted", path=path, reason=result.reason)
        return not isinstance(result, Conflict)

    async def _watched(self, path: str) -> Node | None:
        (node,) = await self._zk.read_and_watch([path], absent_too=True)
        return node

    # -- configurations ----------------------------------------------------------------------------------------------

    async def read_config_changes(self, known: AbstractSet[str] = frozenset()) -> ConfigChangesRead:
        """Children of ``/config/changes`` in the order of their sequence numbers, without those that are known."""
        children = await self._zk.children(paths.CONFIG_CHANGES, watch=True) or []
        numbered = sorted((paths.parse_sequence(child) or 0, child) for child in children if child not in known)
        names = [child for _, child in numbered]
        nodes = await self._zk.read([paths.config_change(child) for child in names])
        entities, broken = _decoded(names, nodes, codecs.decode_config_change, self._rejections)
        return ConfigChangesRead(entities, broken, frozenset(children))

    async def has_delegation_tokens(self) -> bool:
        """Whether there are delegation tokens."""
        return bool(await self._zk.children(paths.DELEGATION_TOKENS))

    async def read_broker_defaults(self) -> Mapping[str, str]:
        """Dynamic defaults of all brokers. :raises BadZnode: they cannot be understood."""
        path = paths.CONFIG_BROKER_DEFAULTS
        (node,) = await self._zk.read([path])
        with self._rejections.judging(node):
            return codecs.decode_config(path, node.data if node is not None else None)

    # -- what absent brokers owe -------------------------------------------------------------------------------------

    async def read_debts(self) -> Mapping[BrokerId, Mapping[TopicPartition, str | None]]:
        """Replicas that absent brokers must delete; what cannot be understood is left alone."""
        children = await self._zk.children(paths.DEBTS) or []
        brokers = sorted(broker for child in children if (broker := paths.parse_broker_id(child)) is not None)
        nodes = await self._zk.read([paths.debt(broker) for broker in brokers])
        debts, broken = _decoded(brokers, nodes, codecs.decode_debt, self._rejections)
        for bad in broken:
            log.error("owed deletions cannot be understood", path=bad.path, reason=bad.reason)
        return debts

    async def write_debts(self, debts: Mapping[BrokerId, Mapping[TopicPartition, str | None]]) -> None:
        """Replace the debts of these brokers.

        :raises BadZnode: one is left as it is, because it cannot be understood or ZooKeeper refuses; the others are
            written.
        """
        brokers = list(debts)
        nodes = await self._zk.read([paths.debt(broker) for broker in brokers])
        _, broken = _decoded(brokers, nodes, codecs.decode_debt, self._rejections)
        left_alone = {bad.path for bad in broken}
        operations = [
            operation
            for broker, node in zip(brokers, nodes, strict=True)
            if paths.debt(broker) not in left_alone
            and (operation := _replaced(paths.debt(broker), debts[broker], node)) is not None
        ]
        if any(isinstance(operation, Create) for operation in operations):
            operations = [*await self._missing_parents_of_debts(), *operations]
        results = zip(operations, await self._writer.write(operations), strict=True)
        failed = [BadZnode(o.path, result.reason) for o, result in results if not isinstance(result, Written)]
        for bad in (*broken, *failed):
            raise bad

    async def _missing_parents_of_debts(self) -> list[Operation]:
        parents = list(accumulate(paths.DEBTS.split("/")[1:], lambda above, name: f"{above}/{name}", initial=""))[1:]
        nodes = await self._zk.read(parents)
        return [Create(path, None) for path, node in zip(parents, nodes, strict=True) if node is None]

    async def _drop(self, doomed: Sequence[str]) -> None:
        """Delete what exists of these."""
        nodes = await self._zk.read(doomed)
        there = [path for path, node in zip(doomed, nodes, strict=True) if node is not None]
        results = await self._writer.write([Delete(path) for path in there])
        for path, result in zip(there, results, strict=True):
            if not isinstance(result, Written):
                log.warning("request was not deleted", path=path, reason=result.reason)


def _replaced(path: str, owed: Mapping[TopicPartition, str | None], node: Node | None) -> Operation | None:
    """What makes a znode say that this is owed; None: nothing need be done."""
    if node is None:
        return Create(path, codecs.encode_debt(owed)) if owed else None
    return SetData(path, codecs.encode_debt(owed), node.version) if owed else Delete(path, node.version)


Key = TypeVar("Key")


def _decoded(
    keys: Sequence[Key], nodes: Sequence[Node | None], decode: Callable[[Key, bytes | None], T], rejections: Rejections
) -> tuple[dict[Key, T], tuple[BadZnode, ...]]:
    """What the znodes that exist say by key, and those that are broken."""
    decoded: dict[Key, T] = {}
    broken: list[BadZnode] = []
    for key, node in zip(keys, nodes, strict=True):
        try:
            if node is not None:
                decoded[key] = decode(key, node.data)
        except BadZnode as error:
            broken.append(error)
            rejections.note(error, node)
    return decoded, tuple(broken)
