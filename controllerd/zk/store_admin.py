"""Requests by znode below ``/admin``: deletions of topics, reassignments, elections of preferred leaders."""

from collections.abc import Iterable, Mapping, Sequence

import structlog

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.ports.results import (
    Conflict,
    ElectionsRead,
    ReassignmentsRead,
    WriteFailed,
    WriteResult,
    Written,
)
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, Create, Delete, Operation, SetData, Znode, ZooKeeper
from controllerd.zk.rejections import Rejections
from controllerd.zk.watches import Watches
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)


class AdminZnodes:
    """``ports.admin.AdminStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections, watches: Watches) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections
        self._watches = watches

    # -- deletions ---------------------------------------------------------------------------------------------------

    async def read_topic_deletions(self) -> frozenset[str]:
        """Read the children of ``/admin/delete_topics``, and watch them."""
        return frozenset(await self._zk.children(paths.DELETE_TOPICS, watch=True) or [])

    async def create_deletion_markers(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Request the deletion of topics; a marker that exists already counts as written, whatever its data is."""
        markers = {topic: paths.delete_topic(topic) for topic in topics}
        written = await self._writer.write([Create(path, None) for path in markers.values()])
        results = dict(zip(markers, written, strict=True))
        conflicting = [topic for topic, result in results.items() if isinstance(result, Conflict)]
        nodes = await self._zk.read([markers[topic] for topic in conflicting])
        return results | {
            t: Written(node.version) for t, node in zip(conflicting, nodes, strict=True) if node is not None
        }

    async def delete_deletion_markers(self, topics: Iterable[str]) -> None:
        """Delete the markers of requests to delete topics."""
        await self._delete_existing([paths.delete_topic(topic) for topic in sorted(set(topics))])

    async def _delete_existing(self, wanted: Sequence[str]) -> None:
        nodes = await self._zk.read(wanted)
        there = [path for path, node in zip(wanted, nodes, strict=True) if node is not None]
        results = await self._writer.write([Delete(path) for path in there])
        for path, result in zip(there, results, strict=True):
            if not isinstance(result, Written):
                log.warning("request was not deleted", path=path, reason=result.reason)

    # -- reassignments and elections ---------------------------------------------------------------------------------

    async def read_reassignments(self) -> ReassignmentsRead | None:
        """Read ``/admin/reassign_partitions``; it stays watched. :raises BadZnode: it cannot be decoded."""
        node = await self._read_and_watch(paths.REASSIGN_PARTITIONS)
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
        """Read ``/admin/preferred_replica_election``; it stays watched. :raises BadZnode: it cannot be decoded."""
        node = await self._read_and_watch(paths.PREFERRED_REPLICA_ELECTION)
        with self._rejections.judging(node):
            return None if node is None else ElectionsRead(codecs.decode_preferred_election(node.data), node.version)

    async def delete_preferred_election(self, version: int = ANY_VERSION) -> bool:
        """Delete ``/admin/preferred_replica_election`` at this version; return False if its version has changed."""
        path = paths.PREFERRED_REPLICA_ELECTION
        (node,) = await self._zk.read([path])
        if node is None:
            return True
        (result,) = await self._writer.write([Delete(path, version)])
        if isinstance(result, WriteFailed):
            log.warning("request was not deleted", path=path, reason=result.reason)
        return not isinstance(result, Conflict)

    async def arm_admin_watches(self) -> frozenset[str]:
        """Watch the requests to reassign and to elect, and ``/config/changes``; return the requests that exist."""
        await self._zk.children(paths.CONFIG_CHANGES, watch=True)
        return await self._watches.arm_admin()

    async def _read_and_watch(self, path: str) -> Znode | None:
        (node,) = await self._zk.read_and_watch([path], absent_too=True)
        return node
