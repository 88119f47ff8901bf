"""Publishes the newest image in the form of an active controller's snapshot, so that readers need no special case.

The mirror has a context of its own. No handler changes it, and the observer compares nothing with it. State that is not
in ZooKeeper (controlled shutdowns, failed log directories, the progress of a deletion) is not published.
"""

from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, Features, LeaderAndIsr, PartitionState
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import leadership_flaw
from controllerd.errors import BadZnode
from controllerd.slicer import Slicer
from controllerd.snapshot import ClusterSnapshot, Publication
from controllerd.zk import codecs, paths
from controllerd.zk.elector import holder_of
from controllerd.zk.image import ClusterImage


def partition_state_of(record: PartitionRecord, context: ControllerContext) -> PartitionState:
    """Return Online with a live leader, Offline without one, New before the first leader.

    An active controller reaches the same states by writes at its start.
    """
    leadership = record.leadership
    if leadership is None:
        return PartitionState.NON_EXISTENT if record.tp.state_path in context.quarantine else PartitionState.NEW
    is_sound = leadership_flaw(leadership, record.assignment.replicas) is None
    is_led = leadership.leader in context.liveness.online(record)
    return PartitionState.ONLINE if is_sound and is_led else PartitionState.OFFLINE


_IDS: Final = f"{paths.BROKER_IDS}/"
_NOTHING: Final = ClusterImage({}, {})


class Mirror:
    """Updates a snapshot from images, at the cost of the differences between them."""

    def __init__(self, features: Features, snapshot: ClusterSnapshot) -> None:
        self._context = ControllerContext(features)
        self._snapshot = snapshot
        self._last = _NOTHING

    async def show(self, image: ClusterImage) -> None:
        """Publish this image as a whole."""
        last, self._last = self._last, image
        slicer = Slicer()
        epoch = image.nodes.get(paths.CONTROLLER_EPOCH)
        self._context.begin_term(max(image.controller_epoch, 0), epoch.version if epoch is not None else 0)
        brokers_moved = self._update_brokers(image)
        await self._update_topics(last, image, slicer)
        self._update_deletions(image)
        if brokers_moved:
            await self._move_all(slicer)
        self._context.take_changes()
        publication = Publication(self._context)
        while publication.prepare_one():
            await slicer.yield_to_loop()
        self._snapshot.holder = holder_of(image.nodes.get(paths.CONTROLLER))
        publication.show(self._snapshot)

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _update_brokers(self, image: ClusterImage) -> bool:
        """Update the brokers; return whether any was added, removed or registered anew."""
        context, registered = self._context, self._read_registrations(image)
        gone = context.brokers.keys() - registered.keys()
        moved = [broker for broker in registered.values() if context.brokers.get(broker.id) != broker]
        for broker_id in gone:
            context.remove_broker(broker_id)
        for broker in moved:
            context.add_broker(broker)
        return bool(gone or moved)

    def _read_registrations(self, image: ClusterImage) -> dict[BrokerId, Broker]:
        """Return the brokers, and put unreadable registrations in quarantine.

        A broker with an unreadable registration keeps its earlier state, or is left out.
        """
        context = self._context
        found: dict[BrokerId, Broker] = {}
        present = {f"{paths.BROKER_IDS}/{name}": paths.parse_broker_id(name) for name in image.names(paths.BROKER_IDS)}
        for path in [path for path in context.quarantine if path.startswith(f"{paths.BROKER_IDS}/")]:
            if path not in present:
                context.take_out_of_quarantine(path)
        for path, broker_id in present.items():
            try:
                broker = _broker_in(image, path, broker_id)
            except BadZnode as bad:
                context.put_in_quarantine(path, bad.reason)
                broker = context.brokers.get(broker_id) if broker_id is not None else None
            else:
                context.take_out_of_quarantine(path)
            if broker is not None:
                found[broker.id] = broker
        return found

    # -- topics --------------------------------------------------------------------------------------------------------

    async def _update_topics(self, last: ClusterImage, image: ClusterImage, slicer: Slicer) -> None:
        names = image.names(paths.BROKER_TOPICS)
        for name in set(last.names(paths.BROKER_TOPICS)).difference(names):
            self._forget(name, last)
        for name in names:
            if _differs(name, last, image):
                self._forget(name, last)
                self._load(name, image)
            await slicer.yield_to_loop()

    def _forget(self, name: str, last: ClusterImage) -> None:
        self._context.remove_topic(name)
        for path in (paths.topic(name), *last.state_paths.get(name, ())):
            self._context.take_out_of_quarantine(path)

    def _load(self, name: str, image: ClusterImage) -> None:
        """Load the current state of a topic as a whole, because most changed topics have few partitions."""
        context, node = self._context, image.nodes.get(paths.topic(name))
        if node is None:
            return
        try:
            topic = codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)
        except BadZnode as bad:
            context.put_in_quarantine(bad.path, bad.reason)
            return
        context.add_topic(topic)
        records = list(context.topics[name].partitions.values())
        states = ((record, self._state_of(record, image)) for record in records)
        context.set_leaderships([(record, state) for record, state in states if state is not None])
        self._move(records)

    def _state_of(self, record: PartitionRecord, image: ClusterImage) -> LeaderAndIsr | None:
        node = image.nodes.get(record.tp.state_path)
        try:
            return codecs.decode_state(record.tp, node.data, node.version) if node is not None else None
        except BadZnode as bad:
            self._context.put_in_quarantine(bad.path, bad.reason)
            return None

    def _update_deletions(self, image: ClusterImage) -> None:
        context = self._context
        asked = context.topics.keys() & set(image.names(paths.DELETE_TOPICS))
        for name in context.deletions.queued - asked:
            context.deletions.forget(name)
            context.touch(name)
        for name in asked:
            context.deletions.queue(name)

    # -- states --------------------------------------------------------------------------------------------------------

    async def _move_all(self, slicer: Slicer) -> None:
        """Set the states of all partitions after brokers changed: leaders are the same, but may not be live."""
        for topic in list(self._context.topics.values()):
            self._move(list(topic.partitions.values()))
            await slicer.yield_to_loop()

    def _move(self, records: list[PartitionRecord]) -> None:
        """Set the states of partitions that follow from their leaders and the live brokers."""
        by_state: dict[PartitionState, list[PartitionRecord]] = {}
        for record in records:
            by_state.setdefault(partition_state_of(record, self._context), []).append(record)
        for state, moved in by_state.items():
            self._context.move_partitions(moved, state)


def _broker_in(image: ClusterImage, path: str, broker_id: BrokerId | None) -> Broker | None:
    """Decode a registration; None if it was deleted while the image was read. :raises BadZnode: it is invalid."""
    if broker_id is None:
        raise BadZnode(path, "no broker id")
    node = image.nodes.get(path)
    return codecs.decode_broker(broker_id, node.data, node.czxid) if node is not None else None


def _differs(topic: str, last: ClusterImage, image: ClusterImage) -> bool:
    then, now = last.nodes, image.nodes
    return any(then.get(path) != now.get(path) for path in (paths.topic(topic), *image.state_paths.get(topic, ())))
