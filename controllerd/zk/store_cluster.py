"""Znodes of the cluster as a whole: its parents, its id, its features, its producer ids, the heads of audit logs."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from controllerd.core.model import BrokerId
from controllerd.errors import BadZnode, StoreUnavailable
from controllerd.ports.results import AllocatedProducerIds, Conflict, FeaturesRead, WriteFailed, WriteResult, Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import (
    ANY_VERSION,
    NO_NODE,
    Aborted,
    Committed,
    Create,
    Operation,
    SetData,
    ZooKeeper,
    with_parents,
)
from controllerd.zk.journal import TransactionJournal
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_PARENTS_OF_HEADS: Final = ("/controllerd", paths.AUDIT_HEADS)


class ClusterZnodes:
    """``ports.cluster.ClusterStore`` over ZooKeeper."""

    def __init__(
        self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections, journal: TransactionJournal
    ) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections
        self._journal = journal

    async def ensure_paths(self) -> None:
        """Create the persistent parents that are missing, as every broker does at its start.

        :raises BadZnode: ZooKeeper refuses to create one.
        """
        wanted = [parent for path in paths.PERSISTENT_PATHS for parent in with_parents(path)]
        await self._ensure(list(dict.fromkeys(wanted)))

    async def cluster_id(self) -> str:
        """Return the id of the cluster; the first instance or broker that needs it creates it."""
        (node,) = await self._zk.read([paths.CLUSTER_ID])
        if node is None:
            await self._ensure(with_parents(paths.CLUSTER_ID)[:-1])
            await self._journal.commit([[Create(paths.CLUSTER_ID, codecs.encode_cluster_id(_new_id()))]])
            (node,) = await self._zk.read([paths.CLUSTER_ID])
        return codecs.decode_cluster_id(node.data if node is not None else None)

    async def _ensure(self, wanted: Sequence[str]) -> None:
        """Create the missing znodes, unfenced: each broker does the same, and no client changes or deletes them."""
        nodes = await self._zk.read(wanted)
        missing = [path for path, node in zip(wanted, nodes, strict=True) if node is None]
        if not missing:
            return
        await self._journal.commit([[Create(path, None)] for path in missing])
        still = [p for p, node in zip(missing, await self._zk.read(missing), strict=True) if node is None]
        for path in still:
            # Not StoreUnavailable: the session is not lost, so no Expire and no next attempt would follow.
            raise BadZnode(path, "is missing and cannot be created")

    # -- features (KIP-584) ------------------------------------------------------------------------------------------

    async def read_features(self) -> FeaturesRead:
        """Read the finalized features. :raises BadZnode: they cannot be decoded."""
        (node,) = await self._zk.read([paths.FEATURE])
        if node is None:
            return FeaturesRead({}, -1)
        with self._rejections.judging(node):
            found = codecs.decode_feature(node.data)
        levels = {name: each.max_version_level for name, each in found.features.items()}
        return FeaturesRead(levels, node.version, found.enabled, found.format_version)

    async def write_features(self, levels: Mapping[str, int], version: int) -> WriteResult:
        """Finalize exactly these levels; the other fields of the znode are kept."""
        (node,) = await self._zk.read([paths.FEATURE])
        if node is None:
            return Conflict("the znode is gone")
        found = codecs.decode_feature(node.data)
        features = {
            name: found.features[name]._replace(max_version_level=level)
            if name in found.features
            else codecs.FinalizedFeature(level)
            for name, level in levels.items()
        }
        fresh = codecs.encode_feature(replace(found, features=features))
        (result,) = await self._writer.write([SetData(paths.FEATURE, fresh, version)])
        return result

    async def ensure_feature_znode(self, *, enabled: bool, format_version: int = 2) -> None:
        """Create or correct ``/feature``; ``format_version`` is 1 below 3.3-IV0, and never lowered.

        :raises BadZnode: it cannot be decoded or written, or is of a newer format: it is left as it is.
        """
        result: WriteResult = Conflict("not tried yet")
        while isinstance(result, Conflict):
            result = await self._try_feature_znode(enabled=enabled, format_version=format_version)
        if isinstance(result, WriteFailed):
            raise BadZnode(paths.FEATURE, result.reason)

    async def _try_feature_znode(self, *, enabled: bool, format_version: int) -> WriteResult:
        (node,) = await self._zk.read([paths.FEATURE])
        if node is None:
            fresh = codecs.FeatureZnode(enabled=enabled, format_version=format_version)
            return await self._write_feature(Create(paths.FEATURE, codecs.encode_feature(fresh)))
        with self._rejections.judging(node):
            found = codecs.decode_feature(node.data)
        corrected = _corrected(found, enabled=enabled, format_version=format_version)
        if corrected is None:
            return Written(node.version)
        return await self._write_feature(SetData(paths.FEATURE, codecs.encode_feature(corrected), node.version))

    async def _write_feature(self, operation: Operation) -> WriteResult:
        (result,) = await self._writer.write([operation])
        return result


class ProducerIdZnodes:
    """``ports.cluster.ProducerIdStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections

    async def read_producer_ids(self) -> AllocatedProducerIds:
        """Return the last block that was allocated. :raises BadZnode: it cannot be decoded."""
        (node,) = await self._zk.read([paths.LATEST_PRODUCER_ID_BLOCK])
        with self._rejections.judging(node):
            block = codecs.decode_producer_id_block(node.data) if node is not None else None
        version = node.version if node is not None else -1
        if block is None:
            return AllocatedProducerIds(None, 0, -1, version)
        return AllocatedProducerIds(BrokerId(block.broker_id), block.first, block.last, version)

    async def write_producer_ids(self, block: AllocatedProducerIds) -> WriteResult:
        """Allocate a block; the znode is created if it is missing."""
        owner = block.broker if block.broker is not None else BrokerId(-1)
        data = codecs.encode_producer_id_block(codecs.ProducerIdBlockZnode(owner, block.block_start, block.block_end))
        path = paths.LATEST_PRODUCER_ID_BLOCK
        operation = Create(path, data) if block.version < 0 else SetData(path, data, block.version)
        (result,) = await self._writer.write([operation])
        return result


async def put_audit_head(zk: ZooKeeper, node_id: int, head: bytes) -> None:
    """Write the encoded head of an instance's audit log.

    A process that can change the files of the log cannot change its head in ZooKeeper. The write needs no fence,
    because no other instance writes this path, and an instance without the role has a log as well. It leaves no record
    in the log, which would change the head again.

    :raises StoreUnavailable: the head was not written, or the answer was lost.
    """
    path = paths.audit_head(node_id)
    (outcome,) = await zk.commit([[SetData(path, head, ANY_VERSION)]])
    if isinstance(outcome, Aborted) and outcome.code == NO_NODE:
        parents = [[Create(parent, None)] for parent in _PARENTS_OF_HEADS]
        *_, outcome = await zk.commit([*parents, [Create(path, head)]])
    if not isinstance(outcome, Committed):
        raise StoreUnavailable(f"{path} was not written: {outcome}")


def _corrected(found: codecs.FeatureZnode, *, enabled: bool, format_version: int) -> codecs.FeatureZnode | None:
    """Return the content that ``/feature`` must have; None if it has it already."""
    is_right = found.enabled == enabled and (enabled or not found.features)  # a disabled znode names no features
    if is_right and found.format_version >= format_version:
        return None
    return replace(
        found,
        enabled=enabled,
        features=found.features if is_right else {},
        format_version=max(found.format_version, format_version),
    )


def _new_id() -> str:
    """Return a random uuid in base64url without padding; like Kafka's, never beginning with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
