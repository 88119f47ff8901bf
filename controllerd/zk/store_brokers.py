"""Znodes that brokers write: registrations, and notifications of changed ISRs and failed log directories."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from controllerd.core.model import OUR_IDS, Broker, BrokerId, TopicPartition
from controllerd.errors import BadZnode, NewerZnode
from controllerd.ports.results import BrokersRead, NotificationsRead, Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import Delete, Znode, ZooKeeper
from controllerd.zk.registrar import find_registrations
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)

T = TypeVar("T")


class BrokerZnodes:
    """``ports.brokers.BrokerStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, rejections: Rejections) -> None:
        self._zk = zk
        self._rejections = rejections

    async def read_brokers(self) -> BrokersRead:
        """Read and watch ``/brokers/ids``; a registration that cannot be used is reported and left out.

        Registrations of controllerd are not brokers: their ids are returned separately.
        """
        children = await self._zk.children(paths.BROKER_IDS, watch=True) or []
        found = {child: paths.parse_broker_id(child) for child in sorted(children)}
        in_our_range = {child: id_ for child, id_ in found.items() if id_ is not None and id_ in OUR_IDS}
        ids = {child: id_ for child, id_ in found.items() if child not in in_our_range}
        broken = [BadZnode(f"{paths.BROKER_IDS}/{child}", "no broker id") for child, id_ in ids.items() if id_ is None]
        known = sorted(broker for broker in ids.values() if broker is not None)
        nodes = await self._zk.read_and_watch([paths.broker(broker) for broker in known])
        brokers, unusable = self._rejections.decode_all(known, nodes, _broker_of)
        broken += unusable
        controllers = await self._controllers(in_our_range, broken)
        return BrokersRead(brokers, tuple(broken), controllers)

    async def _controllers(self, children: Mapping[str, BrokerId], broken: list[BadZnode]) -> frozenset[BrokerId]:
        """Return the ids under which instances of controllerd are registered; add other content there to ``broken``."""
        ours = {each.path for each in await find_registrations(self._zk, children)}
        others = [id_ for id_ in children.values() if paths.broker(id_) not in ours]
        nodes = await self._zk.read([paths.broker(id_) for id_ in others])
        reason = (
            f"the ids from {OUR_IDS[0]} to {OUR_IDS[-1]} are those of controllerd; give the broker another broker.id"
        )
        there = [id_ for id_, node in zip(others, nodes, strict=True) if node is not None]
        broken += [BadZnode(paths.broker(id_), reason) for id_ in there]
        return frozenset(id_ for id_ in children.values() if paths.broker(id_) in ours)

    async def list_brokers(self) -> list[Broker]:
        """Return the registrations that can be decoded, without watches: for an instance that does not lead."""
        ids = [paths.parse_broker_id(child) for child in await self._zk.children(paths.BROKER_IDS) or []]
        wanted = sorted(broker for broker in ids if broker is not None and broker not in OUR_IDS)
        nodes = await self._zk.read([paths.broker(broker) for broker in wanted])
        found = []
        for broker, node in zip(wanted, nodes, strict=True):
            with suppress(BadZnode):  # only the active instance reports it
                if node is not None:
                    found.append(_broker_of(broker, node))
        return found

    async def read_broker(self, broker: BrokerId) -> Broker | None:
        """Read and watch one registration, None if it is gone. :raises BadZnode: it cannot be decoded."""
        (node,) = await self._zk.read_and_watch([paths.broker(broker)])
        with self._rejections.judging(node):
            return _broker_of(broker, node) if node is not None else None


class NotificationZnodes:
    """``ports.brokers.NotificationStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections

    async def read_isr_notifications(self) -> NotificationsRead:
        """Read the children of ``/isr_change_notification`` and the partitions that they name."""
        names, decoded, broken = await self._read(paths.ISR_CHANGES, codecs.decode_isr_change)
        partitions = frozenset[TopicPartition]().union(*decoded)
        return NotificationsRead(names, partitions=partitions, broken=broken)

    async def delete_isr_notifications(self, names: Sequence[str]) -> None:
        """Delete these children."""
        await self._delete([paths.isr_change(name) for name in names])

    async def read_log_dir_notifications(self) -> NotificationsRead:
        """Read the children of ``/log_dir_event_notification`` and the brokers that they name."""
        names, decoded, broken = await self._read(paths.LOG_DIR_EVENTS, codecs.decode_log_dir_event)
        return NotificationsRead(names, brokers=frozenset[BrokerId](decoded), broken=broken)

    async def delete_log_dir_notifications(self, names: Sequence[str]) -> None:
        """Delete these children."""
        await self._delete([paths.log_dir_event(name) for name in names])

    async def _read(
        self, parent: str, decode: Callable[[str, bytes | None], T]
    ) -> tuple[tuple[str, ...], list[T], tuple[BadZnode, ...]]:
        """Return the names that may be deleted, the decoded contents, and the notifications that are broken.

        The parent stays watched. A notification of a newer format is not among the names, so it is not deleted.
        """
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

    async def _delete(self, wanted: Sequence[str]) -> None:
        results = await self._writer.write([Delete(path) for path in wanted])
        for path, result in zip(wanted, results, strict=True):
            if not isinstance(result, Written):
                log.warning("notification not deleted", path=path, reason=result.reason)


def _broker_of(broker: BrokerId, node: Znode) -> Broker:
    return codecs.decode_broker(broker, node.data, node.czxid)
