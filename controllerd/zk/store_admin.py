"""The remaining znodes: what brokers and tools ask for by them, configs, producer ids, features, the cluster's id."""

import base64
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import structlog

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode, NewerZnode
from controllerd.results import (
    Conflict,
    FeaturesRead,
    NotificationsRead,
    ProducerIds,
    WriteFailed,
    WriteResult,
    Written,
)
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Delete, Operation, SetData, ZooKeeper
from controllerd.zk.journal import Journal
from controllerd.zk.rejections import Rejections
from controllerd.zk.watches import Watches
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)

T = TypeVar("T")


class AdminZnodes:
    """``ports.AdminStore`` over ZooKeeper."""

    _zk: ZooKeeper
    _writer: FencedWriter
    _journal: Journal
    _rejections: Rejections
    _watches: Watches

    async def ensure_paths(self) -> None:
        """Create the persistent parents that are missing, as every broker does at its start.

        :raises BadZnode: ZooKeeper refuses to create one.
        """
        wanted = [parent for path in paths.PERSISTENT_PATHS for parent in _with_parents(path)]
        await self._ensure(list(dict.fromkeys(wanted)))

    async def cluster_id(self) -> str:
        """The id of the cluster; whoever comes first decides on it."""
        (node,) = await self._zk.read([paths.CLUSTER_ID])
        if node is None:
            await self._ensure(_with_parents(paths.CLUSTER_ID)[:-1])
            await self._journal.commit([[Create(paths.CLUSTER_ID, codecs.encode_cluster_id(_new_id()))]])
            (node,) = await self._zk.read([paths.CLUSTER_ID])
        return codecs.decode_cluster_id(node.data if node is not None else None)

    async def read_isr_notifications(self) -> NotificationsRead:
        """Children of ``/isr_change_notification`` and the partitions that they name."""
        names, decoded, broken = await self._notifications(paths.ISR_CHANGES, codecs.decode_isr_change)
        partitions = frozenset[TopicPartition]().union(*decoded)
        return NotificationsRead(names, partitions=partitions, broken=broken)

    async def delete_isr_notifications(self, names: Sequence[str]) -> None:
        """Delete these children."""
        await self._delete([paths.isr_change(name) for name in names])

    async def read_log_dir_notifications(self) -> NotificationsRead:
        """Children of ``/log_dir_event_notification`` and the brokers that they name."""
        names, decoded, broken = await self._notifications(paths.LOG_DIR_EVENTS, codecs.decode_log_dir_event)
        return NotificationsRead(names, brokers=frozenset[BrokerId](decoded), broken=broken)

    async def delete_log_dir_notifications(self, names: Sequence[str]) -> None:
        """Delete these children."""
        await self._delete([paths.log_dir_event(name) for name in names])

    async def read_topic_configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        """Overrides of these topics; a znode that cannot be understood is a value, not an error."""
        wanted = list(dict.fromkeys(topics))
        nodes = await self._zk.read([paths.topic_config(topic) for topic in wanted])
        configs: dict[str, Mapping[str, str] | BadZnode] = {}
        for topic, node in zip(wanted, nodes, strict=True):
            try:
                configs[topic] = codecs.decode_config(paths.topic_config(topic), node.data if node else None)
            except BadZnode as error:
                configs[topic] = error
                self._rejections.note(error, node)
        return configs

    async def read_producer_ids(self) -> ProducerIds:
        """The last block handed out. :raises BadZnode: it cannot be understood."""
        (node,) = await self._zk.read([paths.LATEST_PRODUCER_ID_BLOCK])
        with self._rejections.judging(node):
            block = codecs.decode_producer_id_block(node.data) if node is not None else None
        version = node.version if node is not None else -1
        if block is None:
            return ProducerIds(None, 0, -1, version)
        return ProducerIds(BrokerId(block.broker_id), block.first, block.last, version)

    async def write_producer_ids(self, block: ProducerIds) -> WriteResult:
        """Hand out a block; where the znode is missing it is created."""
        owner = block.broker if block.broker is not None else BrokerId(-1)
        data = codecs.encode_producer_id_block(codecs.ProducerIdBlock(owner, block.block_start, block.block_end))
        path = paths.LATEST_PRODUCER_ID_BLOCK
        operation = Create(path, data) if block.version < 0 else SetData(path, data, block.version)
        (result,) = await self._writer.write([operation])
        return result

    async def ensure_feature_znode(self, *, enabled: bool, format_version: int = 2) -> None:
        """Create or correct ``/feature`` (KIP-584); ``format_version`` is 1 below 3.3-IV0, and never lowered.

        :raises BadZnode: it cannot be understood or written, or is of a newer format: it is left as it is.
        """
        result: WriteResult = Conflict("not tried yet")
        while isinstance(result, Conflict):
            result = await self._try_feature_znode(enabled=enabled, format_version=format_version)
        if isinstance(result, WriteFailed):
            raise BadZnode(paths.FEATURE, result.reason)

    async def read_features(self) -> FeaturesRead:
        """Finalized features. :raises BadZnode: they cannot be understood."""
        (node,) = await self._zk.read([paths.FEATURE])
        if node is None:
            return FeaturesRead({}, -1)
        with self._rejections.judging(node):
            found = codecs.decode_feature(node.data)
        levels = {name: each.max_version_level for name, each in found.features.items()}
        return FeaturesRead(levels, node.version, found.enabled, found.format_version)

    async def write_features(self, levels: Mapping[str, int], version: int) -> WriteResult:
        """Finalize exactly these levels; what the znode says besides is kept."""
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

    async def arm_admin_watches(self) -> frozenset[str]:
        """Watch the znodes that ask for something; those that exist already. ``/config/changes`` is watched too."""
        await self._zk.children(paths.CONFIG_CHANGES, watch=True)
        return await self._watches.arm_admin()

    async def _delete(self, doomed: Sequence[str]) -> None:
        results = await self._writer.write([Delete(path) for path in doomed])
        for path, result in zip(doomed, results, strict=True):
            if not isinstance(result, Written):
                log.warning("notification not deleted", path=path, reason=result.reason)

    async def _try_feature_znode(self, *, enabled: bool, format_version: int) -> WriteResult:
        (node,) = await self._zk.read([paths.FEATURE])
        operation: Operation
        if node is None:
            fresh = codecs.FeatureZnode(enabled=enabled, format_version=format_version)
            operation = Create(paths.FEATURE, codecs.encode_feature(fresh))
        else:
            with self._rejections.judging(node):
                found = codecs.decode_feature(node.data)
            is_fine = found.enabled == enabled and (enabled or not found.features)
            if is_fine and found.format_version >= format_version:
                return Written(node.version)
            fresh = replace(
                found,
                enabled=enabled,
                features=found.features if is_fine else {},
                format_version=max(found.format_version, format_version),
            )
            operation = SetData(paths.FEATURE, codecs.encode_feature(fresh), node.version)
        (result,) = await self._writer.write([operation])
        return result

    async def _notifications(
        self, parent: str, decode: Callable[[str, bytes | None], T]
    ) -> tuple[tuple[str, ...], list[T], tuple[BadZnode, ...]]:
        """Names that may be deleted, what they say, and those that are broken (a newer format is left alone)."""
        children = sorted(await self._zk.children(parent, watch=True) or [])
        nodes = await self._zk.read([f"{parent}/{child}" for child in children])
        names: list[str] = []
        decoded: list[T] = []
        broken: list[BadZnode] = []
        for child, node in zip(children, nodes, strict=True):
            try:
                if node is not None:
                    decoded.append(decode(child, node.data))
                    names.append(child)
            except BadZnode as error:
                broken.append(error)
                self._rejections.note(error, node)
                if not isinstance(error, NewerZnode):
                    names.append(child)
        return tuple(names), decoded, tuple(broken)

    async def _ensure(self, wanted: Sequence[str]) -> None:
        """Create the missing ones, unfenced: each broker does the same, and none is ever changed or deleted."""
        nodes = await self._zk.read(wanted)
        missing = [path for path, node in zip(wanted, nodes, strict=True) if node is None]
        if not missing:
            return
        await self._journal.commit([[Create(path, None)] for path in missing])
        still = [p for p, node in zip(missing, await self._zk.read(missing), strict=True) if node is None]
        if still:
            # No matter of the session: nothing would follow by itself, as Expire does after StoreUnavailable.
            raise BadZnode(still[0], "is missing and cannot be created")


def _with_parents(path: str) -> list[str]:
    return list(accumulate(path.split("/")[1:], lambda above, name: f"{above}/{name}", initial=""))[1:]


def _new_id() -> str:
    """A random uuid in base64url without padding; like Kafka's, never beginning with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
