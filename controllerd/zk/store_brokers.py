"""Registrations of brokers."""

from controllerd.core.model import Broker, BrokerId
from controllerd.errors import BadZnode
from controllerd.results import BrokersRead
from controllerd.zk import codecs, paths
from controllerd.zk.access import ZooKeeper
from controllerd.zk.rejections import Rejections


class BrokerZnodes:
    """``ports.BrokerStore`` over ZooKeeper."""

    _zk: ZooKeeper
    _rejections: Rejections

    async def read_brokers(self) -> BrokersRead:
        """All of ``/brokers/ids``; a registration that cannot be used is reported and left out."""
        children = await self._zk.children(paths.BROKER_IDS, watch=True) or []
        ids = {child: paths.parse_broker_id(child) for child in sorted(children)}
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
        return BrokersRead(brokers, tuple(broken))

    async def read_broker(self, broker: BrokerId) -> Broker | None:
        """One registration, None if it is gone. :raises BadZnode: it cannot be understood."""
        (node,) = await self._zk.read_and_watch([paths.broker(broker)])
        with self._rejections.judging(node):
            return codecs.decode_broker(broker, node.data, node.czxid) if node is not None else None
