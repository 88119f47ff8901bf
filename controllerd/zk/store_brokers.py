"""Registrations of brokers."""

from collections.abc import Mapping
from contextlib import suppress

from controllerd.core.model import OUR_IDS, Broker, BrokerId
from controllerd.errors import BadZnode
from controllerd.results import BrokersRead
from controllerd.zk import codecs, paths
from controllerd.zk.access import ZooKeeper
from controllerd.zk.registrar import find_registrations
from controllerd.zk.rejections import Rejections


class BrokerZnodes:
    """``ports.BrokerStore`` over ZooKeeper."""

    _zk: ZooKeeper
    _rejections: Rejections

    async def read_brokers(self) -> BrokersRead:
        """Read ``/brokers/ids``; a registration that cannot be used is reported and left out.

        Registrations of controllerd are not brokers: their ids are returned separately.
        """
        children = await self._zk.children(paths.BROKER_IDS, watch=True) or []
        found = {child: paths.parse_broker_id(child) for child in sorted(children)}
        in_our_range = {child: id_ for child, id_ in found.items() if id_ is not None and id_ in OUR_IDS}
        ids = {child: id_ for child, id_ in found.items() if child not in in_our_range}
        broken = [BadZnode(f"{paths.BROKER_IDS}/{child}", "no broker id") for child, id_ in ids.items() if id_ is None]
        brokers: dict[BrokerId, Broker] = {}
        known = sorted(broker for broker in ids.values() if broker is not None)
        nodes = await self._zk.read_and_watch([paths.broker(broker) for broker in known])
        for broker, node in zip(known, nodes, strict=True):
            try:
                if node is not None:
                    brokers[broker] = codecs.decode_broker(broker, node.data, node.czxid)
            except BadZnode as error:
                broken.append(error)
                self._rejections.note(error, node)
        controllers = await self._controllers(in_our_range, broken)
        return BrokersRead(brokers, tuple(broken), controllers)

    async def _controllers(self, children: Mapping[str, BrokerId], broken: list[BadZnode]) -> frozenset[BrokerId]:
        """Return the ids under which instances of controllerd are registered; other content there is ``broken``."""
        ours = {each.path for each in await find_registrations(self._zk, children)}
        strangers = [id_ for id_ in children.values() if paths.broker(id_) not in ours]
        nodes = await self._zk.read([paths.broker(id_) for id_ in strangers])
        reason = (
            f"the ids from {OUR_IDS[0]} to {OUR_IDS[-1]} are those of controllerd; give the broker another broker.id"
        )
        there = [id_ for id_, node in zip(strangers, nodes, strict=True) if node is not None]
        broken += [BadZnode(paths.broker(id_), reason) for id_ in there]
        return frozenset(id_ for id_ in children.values() if paths.broker(id_) in ours)

    async def list_brokers(self) -> list[Broker]:
        """Return the registrations that can be understood, without watches: for an instance that does not lead."""
        ids = [paths.parse_broker_id(child) for child in await self._zk.children(paths.BROKER_IDS) or []]
        wanted = sorted(broker for broker in ids if broker is not None and broker not in OUR_IDS)
        nodes = await self._zk.read([paths.broker(broker) for broker in wanted])
        found = []
        for broker, node in zip(wanted, nodes, strict=True):
            with suppress(BadZnode):  # the active instance reports it
                if node is not None:
                    found.append(codecs.decode_broker(broker, node.data, node.czxid))
        return found

    async def read_broker(self, broker: BrokerId) -> Broker | None:
        """One registration, None if it is gone. :raises BadZnode: it cannot be understood."""
        (node,) = await self._zk.read_and_watch([paths.broker(broker)])
        with self._rejections.judging(node):
            return codecs.decode_broker(broker, node.data, node.czxid) if node is not None else None
