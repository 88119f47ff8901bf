"""What tools ask the controller for by znodes: deletions, reassignments, elections, changed configurations.

And what the controller asks itself to remember: the replicas that absent brokers still have to delete.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

import structlog

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.mutation_quota import RATE_CONFIG
from controllerd.errors import BadZnode
from controllerd.pace import sliced
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
from controllerd.zk.reading import missing_parents, read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)

T = TypeVar("T")

_SLICE: Final = 1_000
_LISTINGS: Final = 10
"""Listings of children under way at the same time."""


class RequestZnodes:
    """The part of ``ports.AdminStore`` that is about requests by znode."""

    _zk: ZooKeeper
    _writer: FencedWriter
    _rejections: Rejections

    # -- deletions ---------------------------------------------------------------------------------------------------

    async def read_topic_deletions(self) -> frozenset[str]:
        """Children of ``/admin/delete_topics``."""
        return frozenset(await self._zk.children(paths.DELETE_TOPICS, watch=True) or [])

    async def create_deletion_markers(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Ask for the deletion of topics; a marker that is there already says the same, whatever its data."""
        markers = {topic: paths.delete_topic(topic) for topic in topics}
        written = await self._writer.write([Create(path, None) for path in markers.values()])
        results = dict(zip(markers, written, strict=True))
        doubtful = [topic for topic, result in results.items() if isinstance(result, Conflict)]
        nodes = await self._zk.read([markers[topic] for topic in doubtful])
        return results | {t: Written(node.version) for t, node in zip(doubtful, nodes, strict=True) if node is not None}

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

    async def read_broker_defaults(self) -> Mapping[str, str]:
        """Dynamic defaults of all brokers. :raises BadZnode: they cannot be understood."""
        path = paths.CONFIG_BROKER_DEFAULTS
        (node,) = await self._zk.read([path])
        with self._rejections.judging(node):
            return codecs.decode_config(path, node.data if node is not None else None)

    async def read_mutation_rates(self, entities: Iterable[str] | None = None) -> Mapping[str, str | BadZnode | None]:
        """``controller_mutation_rate`` of entities; without any, of all users and client ids."""
        wanted = list(dict.fromkeys(await self._quota_entities() if entities is None else entities))
        rates: dict[str, str | BadZnode | None] = {}

        def take(part: Sequence[str], nodes: Sequence[Node | None]) -> None:
            for entity, node in zip(part, nodes, strict=True):
                try:
                    rates[entity] = codecs.decode_config(_config(entity), node.data if node else None).get(RATE_CONFIG)
                except BadZnode as error:
                    rates[entity] = error
                    self._rejections.note(error, node)

        await read_in_slices(wanted, _SLICE, self._read_configs, take)
        return rates

    async def _read_configs(self, entities: Sequence[str]) -> list[Node | None]:
        return await self._zk.read(list(map(_config, entities)))

    async def _quota_entities(self) -> list[str]:
        """Users, the client ids of each, and client ids of anybody, as they are named below ``/config``."""
        users = await self._entities_below("users")
        found = users + await self._entities_below("clients")
        folders = [f"{user}/clients" for user in users]  # few users have one, and one read tells of many
        nodes = await self._read_configs(folders)
        there = [folder for folder, node in zip(folders, nodes, strict=True) if node is not None]
        for part in sliced(there, _LISTINGS):
            for below in await asyncio.gather(*map(self._entities_below, part)):
                found += below
        return found

    async def _entities_below(self, parent: str) -> list[str]:
        return [f"{parent}/{child}" for child in sorted(await self._zk.children(_config(parent)) or [])]

    # -- what absent brokers owe -------------------------------------------------------------------------------------

    async def read_pending_deletions(self) -> Mapping[BrokerId, Mapping[TopicPartition, str | None]]:
        """Replicas that absent brokers must delete; what cannot be understood is left alone."""
        children = await self._zk.children(paths.DEBTS) or []
        brokers = sorted(broker for child in children if (broker := paths.parse_broker_id(child)) is not None)
        nodes = await self._zk.read([paths.pending_deletions(broker) for broker in brokers])
        debts, broken = _decoded(brokers, nodes, codecs.decode_pending_deletions, self._rejections)
        for bad in broken:
            log.error("owed deletions cannot be understood", path=bad.path, reason=bad.reason)
        return debts

    async def write_pending_deletions(self, debts: Mapping[BrokerId, Mapping[TopicPartition, str | None]]) -> None:
        """Replace the debts of these brokers.

        :raises BadZnode: one is left as it is, because it cannot be understood or ZooKeeper refuses; the others are
            written.
        """
        brokers = list(debts)
        nodes = await self._zk.read([paths.pending_deletions(broker) for broker in brokers])
        _, broken = _decoded(brokers, nodes, codecs.decode_pending_deletions, self._rejections)
        left_alone = {bad.path for bad in broken}
        operations = [
            operation
            for broker, node in zip(brokers, nodes, strict=True)
            if paths.pending_deletions(broker) not in left_alone
            and (operation := _replaced(paths.pending_deletions(broker), debts[broker], node)) is not None
        ]
        if any(isinstance(operation, Create) for operation in operations):
            operations = [*await missing_parents(self._zk, paths.DEBTS), *operations]
        results = zip(operations, await self._writer.write(operations), strict=True)
        failed = [BadZnode(o.path, result.reason) for o, result in results if not isinstance(result, Written)]
        for bad in (*broken, *failed):
            raise bad

    async def _drop(self, doomed: Sequence[str]) -> None:
        """Delete what exists of these."""
        nodes = await self._zk.read(doomed)
        there = [path for path, node in zip(doomed, nodes, strict=True) if node is not None]
        results = await self._writer.write([Delete(path) for path in there])
        for path, result in zip(there, results, strict=True):
            if not isinstance(result, Written):
                log.warning("request was not deleted", path=path, reason=result.reason)


def _config(entity: str) -> str:
    return f"{paths.CONFIG}/{entity}"


def _replaced(path: str, owed: Mapping[TopicPartition, str | None], node: Node | None) -> Operation | None:
    """What makes a znode say that this is owed; None: nothing need be done."""
    if node is None:
        return Create(path, codecs.encode_pending_deletions(owed)) if owed else None
    return SetData(path, codecs.encode_pending_deletions(owed), node.version) if owed else Delete(path, node.version)


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
