"""What our controller would have done: the ordinary store, machines and handlers over a shadow of ZooKeeper.

Nothing here decides anything. The picture from before is loaded as at the start of a term, but silently: the
controller that is watched has done all that long ago. Then the facts of the cause are laid over it, and the event that
they mean is handled as the event loop would.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from channel_manager.batch import RequestBatch
from controllerd.controller import Controller
from controllerd.core.configured_topics import ConfiguredTopics
from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaState, TopicImage, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.settings_book import fixed_settings
from controllerd.errors import BadZnode, IllegalState
from controllerd.machines.assembly import build_machines
from controllerd.machines.outbox import SLICE, Outbox
from controllerd.machines.passes import paced
from controllerd.observer.causes import Facts
from controllerd.observer.stage import (
    Manner,
    NoElector,
    NoRegistrar,
    Notes,
    NullChannels,
    NullMetrics,
    NullTimers,
    TopicIds,
    draw_nothing,
    never_expires,
    no_entry,
)
from controllerd.observer.standing import standing_of
from controllerd.pace import sliced
from controllerd.ports import Clock
from controllerd.services.reassignments import initialise_reassignments
from controllerd.snapshot import ClusterSnapshot
from controllerd.zk import codecs, paths
from controllerd.zk.access import Node, Operation
from controllerd.zk.pictures import Picture
from controllerd.zk.shadow import Shadow
from controllerd.zk.store import ZooKeeperStore
from events.base import Event
from events.queue import EventQueue
from events.registry import AnyEvent
from handlers.config_changes import load_configs
from handlers.dispatch import dispatch
from handlers.failover import load_context

MOST_EVENTS = 1_000
"""More than follow from any cause: beyond it a rehearsal goes in circles."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What would be in ZooKeeper, and what would have been done for it."""

    shadow: Shadow
    written: tuple[Operation, ...]
    requests: Mapping[str, int]
    """How many requests would have been sent, by API."""
    unclean: frozenset[TopicPartition]
    """Partitions for which an unclean election was decided on."""
    alarms: tuple[str, ...]
    touched: frozenset[TopicPartition]
    """Partitions whose state would have been written."""

    def state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        """The state that the partition would have; None without one. :raises BadZnode: it cannot be understood."""
        return state_of(tp, self.shadow.node(paths.partition_state(tp)))

    def topic(self, name: str) -> TopicImage | None:
        """The topic znode as it would be; None without one. :raises BadZnode: it cannot be understood."""
        node = self.shadow.node(paths.topic(name))
        if node is None:
            return None
        return codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)


def state_of(tp: TopicPartition, node: Node | None) -> LeaderAndIsr | None:
    """What a state znode says; None if it does not exist. :raises BadZnode: it cannot be understood."""
    return codecs.decode_state(tp, node.data, node.version) if node is not None else None


async def rehearse(before: Picture, facts: Facts, events: Sequence[Event], manner: Manner, clock: Clock) -> Rehearsed:
    """Handle ``events`` in the term that ``/controller_epoch`` of the facts, or else of the picture, stands for.

    :raises IllegalState: there is no usable controller epoch, or it comes to no end.
    """
    stage = _Stage(before, manner, clock)
    stage.lay({path: node for path, node in facts.items() if path == paths.CONTROLLER_EPOCH})
    await stage.begin()
    stage.lay(facts)
    await load_configs(stage.c)
    await stage.handle(events)
    return await stage.result()


async def rehearse_failover(before: Picture, facts: Facts, manner: Manner, clock: Clock) -> Rehearsed:
    """Take over as a new controller does that finds the facts.

    :raises IllegalState: there is no usable controller epoch, or it comes to no end.
    """
    stage = _Stage(before, manner, clock)
    stage.lay(facts)
    await stage.begin()
    await stage.c.replicas.startup()
    await stage.c.partitions.startup()
    await initialise_reassignments(stage.c)
    await stage.handle(())
    return await stage.result()


class _Stage:
    """One rehearsal: a controller put together as any, over a shadow."""

    def __init__(self, before: Picture, manner: Manner, clock: Clock) -> None:
        self._manner = manner
        self._shadow = Shadow(before)
        self._channels, self._notes = NullChannels(), Notes()
        known = manner.settings
        self._context = ControllerContext(known.features)
        queue = EventQueue(clock.monotonic)
        settings = fixed_settings(known.policy, known.features)
        self._store = ZooKeeperStore(self._shadow, self._notes, clock, queue.put)
        configs = ConfiguredTopics(lambda: known)
        outbox = Outbox(self._context, self._channels, self._notes, self._new_batch)
        self.c = Controller(
            node_id=manner.node_id,
            context=self._context,
            store=self._store,
            elector=NoElector(),
            channels=self._channels,
            queue=queue,
            outbox=outbox,
            machines=build_machines(self._context, self._store, outbox, self._notes, configs, NullMetrics()),
            configs=configs,
            settings=settings,
            audit=self._notes,
            timers=NullTimers(),
            clock=clock,
            snapshot=ClusterSnapshot(manner.node_id),
            new_topic_id=TopicIds(),
            draw=draw_nothing,
            session_expired=never_expires,
            registrar=NoRegistrar(),
            our_entry=no_entry,
        )

    def _new_batch(self, context: ControllerContext) -> RequestBatch:
        return RequestBatch(self.c.node_id, context, inter_broker_listener=self._manner.inter_broker_listener)

    def lay(self, facts: Facts) -> None:
        """Put facts over the picture."""
        for path, node in facts.items():
            self._shadow.lay(path, node)

    async def begin(self) -> None:
        """Load what there is, as the controller has it that has led all the time; nothing is written or sent for it."""
        epoch = self._shadow.node(paths.CONTROLLER_EPOCH)
        if epoch is None:
            raise IllegalState(f"{paths.CONTROLLER_EPOCH} does not exist: there is no term to rehearse in")
        number = _epoch_of(epoch)
        self._context.begin_term(number, epoch.version)
        self._store.writer.bind_term(epoch.version, number)
        await load_configs(self.c)
        await load_context(self.c)
        await self._queue_deletions()
        await self._take_states()
        self._shadow.written.clear()
        self._channels.requests.clear()
        self._notes.clear()

    async def _queue_deletions(self) -> None:
        """Topics that are being deleted are left out of elections; what is deleted of them cannot be seen."""
        if self._manner.settings.policy.delete_topic_enable:
            asked = await self._store.read_topic_deletions()
            self.c.deletions.queue(sorted(asked & self._context.topics.keys()))

    async def _take_states(self) -> None:
        """The states of partitions and replicas that a running controller has, which a start would reach by writing."""
        context, pace = self._context, self.c.outbox.pace
        for part in sliced(list(context.records()), SLICE):
            by_state: dict[PartitionState, list[PartitionRecord]] = {}
            for record in part:
                by_state.setdefault(standing_of(record, context), []).append(record)
            for state, those in by_state.items():
                context.move_partitions(those, state)
            for broker, (online, offline) in self._by_broker(part).items():
                context.move_replicas(broker, online, ReplicaState.ONLINE)
                context.move_replicas(broker, offline, ReplicaState.OFFLINE)
            await pace.breathe()
        await self.c.outbox.write_down_slowly()

    def _by_broker(
        self, part: Sequence[PartitionRecord]
    ) -> Mapping[BrokerId, tuple[list[PartitionRecord], list[PartitionRecord]]]:
        """The replicas by broker: those that are online, and those that are not."""
        found: dict[BrokerId, tuple[list[PartitionRecord], list[PartitionRecord]]] = {}
        liveness = self._context.liveness
        for record in part:
            for index, brokers in enumerate((liveness.online(record), liveness.offline(record))):
                for broker in brokers:
                    found.setdefault(broker, ([], []))[index].append(record)
        return found

    async def handle(self, events: Sequence[Event]) -> None:
        """Handle events and what follows from them by itself, without what brokers or time would bring."""
        for event in events:
            self.c.queue.put(event)
        for _ in range(MOST_EVENTS):
            if not len(self.c.queue):
                return
            queued = await self.c.queue.take()
            await dispatch(cast("AnyEvent", queued.event), self.c)
            await self.c.outbox.write_down_slowly()
        raise IllegalState(f"{MOST_EVENTS} events followed from {list(events)}, and still more do")

    async def result(self) -> Rehearsed:
        """What was done on the stage."""
        decisions = self._notes.decisions
        unclean = {
            TopicPartition(topic, partition)
            for record in decisions
            for topic, partition, is_unclean in zip(record.topics, record.partitions, record.unclean, strict=True)
            if is_unclean
        }
        alarms = tuple(f"{alarm.what}: {alarm.detail}" for alarm in self._notes.alarms)
        written = tuple(self._shadow.written)
        touched = set[TopicPartition]()
        async for operation in paced(written, self.c.outbox.pace):
            if (tp := paths.parse_partition(operation.path)) is not None:
                touched.add(tp)
        requests = dict(self._channels.requests)
        return Rehearsed(self._shadow, written, requests, frozenset(unclean), alarms, frozenset(touched))


def _epoch_of(node: Node) -> int:
    try:
        return codecs.decode_controller_epoch(node.data)
    except BadZnode as error:
        raise IllegalState(f"no term to rehearse in: {error}") from error
