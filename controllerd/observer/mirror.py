"""The cluster of the newest picture, published like that of a controller at work, so that readers see it as usual.

Its context is of its own: no handler touches it, and it is never compared with anything. What does not show in
ZooKeeper (controlled shutdowns, failed log directories, how far a deletion is) does not show here either.
"""

from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, Features, LeaderAndIsr, PartitionState
from controllerd.core.records import PartitionRecord
from controllerd.errors import BadZnode
from controllerd.observer.standing import standing_of
from controllerd.pace import Pace
from controllerd.snapshot import ClusterSnapshot, Publication
from controllerd.zk import codecs, paths
from controllerd.zk.elector import holder_of
from controllerd.zk.pictures import Picture

_IDS: Final = f"{paths.BROKER_IDS}/"
_NOTHING: Final = Picture({}, {})


class Mirror:
    """Brings a snapshot up to date with pictures, at the cost of what changed between them."""

    def __init__(self, features: Features, snapshot: ClusterSnapshot) -> None:
        self._context = ControllerContext(features)
        self._snapshot = snapshot
        self._last = _NOTHING

    async def show(self, picture: Picture) -> None:
        """Readers see this picture from now on, all of it at once."""
        last, self._last = self._last, picture
        pace = Pace()
        epoch = picture.nodes.get(paths.CONTROLLER_EPOCH)
        self._context.begin_term(max(picture.controller_epoch, 0), epoch.version if epoch is not None else 0)
        brokers_moved = self._take_brokers(picture)
        await self._take_topics(last, picture, pace)
        self._take_deletions(picture)
        if brokers_moved:
            await self._judge_all(pace)
        self._context.take_changes()
        publication = Publication(self._context)
        while publication.prepare_one():
            await pace.breathe()
        self._snapshot.holder = holder_of(picture.nodes.get(paths.CONTROLLER))
        publication.show(self._snapshot)

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _take_brokers(self, picture: Picture) -> bool:
        """Whether any came, went, or is registered in another way."""
        context, registered = self._context, self._registered(picture)
        gone = context.brokers.keys() - registered.keys()
        moved = [broker for broker in registered.values() if context.brokers.get(broker.id) != broker]
        for broker_id in gone:
            context.remove_broker(broker_id)
        for broker in moved:
            context.add_broker(broker)
        return bool(gone or moved)

    def _registered(self, picture: Picture) -> dict[BrokerId, Broker]:
        """The brokers; one whose registration cannot be understood stays as it is known, or is left out."""
        context = self._context
        found: dict[BrokerId, Broker] = {}
        present = {
            f"{paths.BROKER_IDS}/{name}": paths.parse_broker_id(name) for name in picture.names(paths.BROKER_IDS)
        }
        for path in [path for path in context.quarantine if path.startswith(f"{paths.BROKER_IDS}/")]:
            if path not in present:
                context.release(path)
        for path, broker_id in present.items():
            try:
                broker = _broker_in(picture, path, broker_id)
            except BadZnode as bad:
                context.put_in_quarantine(path, bad.reason)
                broker = context.brokers.get(broker_id) if broker_id is not None else None
            else:
                context.release(path)
            if broker is not None:
                found[broker.id] = broker
        return found

    # -- topics --------------------------------------------------------------------------------------------------------

    async def _take_topics(self, last: Picture, picture: Picture, pace: Pace) -> None:
        names = picture.names(paths.BROKER_TOPICS)
        for name in set(last.names(paths.BROKER_TOPICS)).difference(names):
            self._forget(name, last)
        for name in names:
            if _differs(name, last, picture):
                self._forget(name, last)
                self._load(name, picture)
            await pace.breathe()

    def _forget(self, name: str, last: Picture) -> None:
        self._context.remove_topic(name)
        for path in (paths.topic(name), *last.state_paths.get(name, ())):
            self._context.release(path)

    def _load(self, name: str, picture: Picture) -> None:
        """A topic as it is now. The whole of it: most topics that change have few partitions."""
        context, node = self._context, picture.nodes.get(paths.topic(name))
        if node is None:
            return
        try:
            image = codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)
        except BadZnode as bad:
            context.put_in_quarantine(bad.path, bad.reason)
            return
        context.add_topic(image)
        records = list(context.topics[name].partitions.values())
        states = ((record, self._state_of(record, picture)) for record in records)
        context.set_leaderships([(record, state) for record, state in states if state is not None])
        self._judge(records)

    def _state_of(self, record: PartitionRecord, picture: Picture) -> LeaderAndIsr | None:
        node = picture.nodes.get(record.tp.state_path)
        try:
            return codecs.decode_state(record.tp, node.data, node.version) if node is not None else None
        except BadZnode as bad:
            self._context.put_in_quarantine(bad.path, bad.reason)
            return None

    def _take_deletions(self, picture: Picture) -> None:
        context = self._context
        asked = context.topics.keys() & set(picture.names(paths.DELETE_TOPICS))
        for name in context.deletions.queued - asked:
            context.deletions.forget(name)
            context.touch(name)
        for name in asked:
            context.deletions.queue(name)

    # -- states --------------------------------------------------------------------------------------------------------

    async def _judge_all(self, pace: Pace) -> None:
        """Who leads has not changed, but whether the leader is there."""
        for topic in list(self._context.topics.values()):
            self._judge(list(topic.partitions.values()))
            await pace.breathe()

    def _judge(self, records: list[PartitionRecord]) -> None:
        by_state: dict[PartitionState, list[PartitionRecord]] = {}
        for record in records:
            by_state.setdefault(standing_of(record, self._context), []).append(record)
        for state, those in by_state.items():
            self._context.move_partitions(those, state)


def _broker_in(picture: Picture, path: str, broker_id: BrokerId | None) -> Broker | None:
    """A registration; None if it went while the picture was taken. :raises BadZnode: it cannot be understood."""
    if broker_id is None:
        raise BadZnode(path, "no broker id")
    node = picture.nodes.get(path)
    return codecs.decode_broker(broker_id, node.data, node.czxid) if node is not None else None


def _differs(topic: str, last: Picture, picture: Picture) -> bool:
    then, now = last.nodes, picture.nodes
    return any(then.get(path) != now.get(path) for path in (paths.topic(topic), *picture.state_paths.get(topic, ())))
