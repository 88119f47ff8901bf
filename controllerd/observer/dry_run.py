"""Dry runs: the reaction of this controller to a cause, by its usual store, machines and handlers over memory.

A dry run makes no decisions of its own. It loads the image from before the cause as at the start of a term, but without
writes and requests, because the observed controller has made them before. Then it replaces the znodes that the cause
changed, and handles the events of the cause as the event loop would.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from channel_manager.batch import RequestBatch
from controllerd.controller import ClusterConfigs, Controller, LocalNode, RoleState, Runtime
from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaState, TopicImage, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.resolved_settings import ConfiguredTopics
from controllerd.core.settings_book import fixed_settings
from controllerd.errors import BadZnode, IllegalState
from controllerd.machines.assembly import build_machines
from controllerd.machines.outbox import Outbox
from controllerd.observer.causes import Facts
from controllerd.observer.dry_run_collaborators import (
    DryRunAudit,
    NoElector,
    NoRegistrar,
    NullChannels,
    NullMetrics,
    NullTimers,
    TopicIds,
    WatchedConfiguration,
    draw_nothing,
    never_expires,
    no_entry,
)
from controllerd.observer.mirror import partition_state_of
from controllerd.ports.clock import Clock
from controllerd.services.reassignments import initialise_reassignments
from controllerd.slicer import SLICE, sliced
from controllerd.snapshot import ClusterSnapshot
from controllerd.zk import codecs, paths
from controllerd.zk.access import Operation, Znode
from controllerd.zk.image import ClusterImage
from controllerd.zk.in_memory import InMemoryZooKeeper
from controllerd.zk.store import ZooKeeperStore
from events.base import Event
from events.queue import EventQueue
from events.registry import AnyEvent
from handlers.config_changes import load_configs
from handlers.dispatch import dispatch
from handlers.failover import load_context

MOST_EVENTS = 1_000
"""More events than any cause leads to. A dry run with more events would not end."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The result of a dry run: the content of its in-memory ZooKeeper, its requests and its decisions."""

    zookeeper: InMemoryZooKeeper
    written: tuple[Operation, ...]
    requests: Mapping[str, int]
    """The number of requests that would have been sent, by API."""
    unclean: frozenset[TopicPartition]
    """The partitions with an unclean election."""
    alarms: tuple[str, ...]
    touched: frozenset[TopicPartition]
    """The partitions whose state would have been written."""

    def state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        """Return the resulting state of the partition; None without one. :raises BadZnode: it is invalid."""
        return state_of(tp, self.zookeeper.node(paths.partition_state(tp)))

    def topic(self, name: str) -> TopicImage | None:
        """Return the resulting topic; None without one. :raises BadZnode: its znode is invalid."""
        node = self.zookeeper.node(paths.topic(name))
        if node is None:
            return None
        return codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid)


def state_of(tp: TopicPartition, node: Znode | None) -> LeaderAndIsr | None:
    """Decode a state znode; None if it does not exist. :raises BadZnode: it is invalid."""
    return codecs.decode_state(tp, node.data, node.version) if node is not None else None


async def dry_run(
    before: ClusterImage, facts: Facts, events: Sequence[Event], configuration: WatchedConfiguration, clock: Clock
) -> DryRunResult:
    """Handle ``events`` in the term of ``/controller_epoch``, which is in the facts or else in the image.

    :raises IllegalState: there is no valid controller epoch, or the events have no end.
    """
    run = _DryRun(before, configuration, clock)
    run.overlay({path: node for path, node in facts.items() if path == paths.CONTROLLER_EPOCH})
    await run.begin()
    run.overlay(facts)
    await load_configs(run.c)
    await run.handle(events)
    return await run.result()


async def dry_run_failover(
    before: ClusterImage, facts: Facts, configuration: WatchedConfiguration, clock: Clock
) -> DryRunResult:
    """Run the failover of a new controller after the facts.

    :raises IllegalState: there is no valid controller epoch, or the events have no end.
    """
    run = _DryRun(before, configuration, clock)
    run.overlay(facts)
    await run.begin()
    await run.c.replicas.startup()
    await run.c.partitions.startup()
    await initialise_reassignments(run.c)
    await run.handle(())
    return await run.result()


class _DryRun:
    """One dry run: a complete controller over an in-memory store."""

    def __init__(self, before: ClusterImage, configuration: WatchedConfiguration, clock: Clock) -> None:
        self._configuration = configuration
        self._zookeeper = InMemoryZooKeeper(before)
        self._channels, self._notes = NullChannels(), DryRunAudit()
        known = configuration.settings
        self._context = ControllerContext(known.features)
        queue = EventQueue(clock.monotonic)
        self._store = ZooKeeperStore(self._zookeeper, self._notes, clock, queue.put)
        configs = ConfiguredTopics(lambda: known)
        outbox = Outbox(self._context, self._channels, self._notes, self._new_batch)
        self.c = Controller(
            local=LocalNode(configuration.node_id, no_entry),
            context=self._context,
            store=self._store,
            machines=build_machines(self._context, self._store, outbox, self._notes, configs, NullMetrics()),
            outbox=outbox,
            channels=self._channels,
            queue=queue,
            audit=self._notes,
            snapshot=ClusterSnapshot(configuration.node_id),
            role=RoleState(NoElector(), NoRegistrar(), never_expires),
            configs=ClusterConfigs(configs, fixed_settings(known.policy, known.features)),
            runtime=Runtime(clock, NullTimers(), TopicIds(), draw_nothing),
        )

    def _new_batch(self, context: ControllerContext) -> RequestBatch:
        return RequestBatch(self.c.node_id, context, inter_broker_listener=self._configuration.inter_broker_listener)

    def overlay(self, facts: Facts) -> None:
        """Replace znodes of the image by facts."""
        for path, node in facts.items():
            self._zookeeper.set_node(path, node)

    async def begin(self) -> None:
        """Load the image into the context of an active controller, without writes and requests."""
        epoch = self._zookeeper.node(paths.CONTROLLER_EPOCH)
        if epoch is None:
            raise IllegalState(f"{paths.CONTROLLER_EPOCH} does not exist: there is no term for a dry run")
        number = _epoch_of(epoch)
        self._context.begin_term(number, epoch.version)
        self._store.writer.bind_term(epoch.version, number)
        await load_configs(self.c)
        await load_context(self.c)
        await self._queue_deletions()
        await self._set_states()
        self._zookeeper.written.clear()
        self._channels.requests.clear()
        self._notes.clear()

    async def _queue_deletions(self) -> None:
        """Queue the requested deletions, whose topics have no elections; their progress is not in ZooKeeper."""
        if self._configuration.settings.policy.delete_topic_enable:
            asked = await self._store.admin.read_topic_deletions()
            self.c.deletions.queue(sorted(asked & self._context.topics.keys()))

    async def _set_states(self) -> None:
        """Set the states of partitions and replicas, which a failover would reach by writing."""
        context, slicer = self._context, self.c.outbox.slicer
        for part in sliced(list(context.records()), SLICE):
            by_state: dict[PartitionState, list[PartitionRecord]] = {}
            for record in part:
                by_state.setdefault(partition_state_of(record, context), []).append(record)
            for state, moved in by_state.items():
                context.move_partitions(moved, state)
            for broker, (online, offline) in self._by_broker(part).items():
                context.move_replicas(broker, online, ReplicaState.ONLINE)
                context.move_replicas(broker, offline, ReplicaState.OFFLINE)
            await slicer.yield_to_loop()
        await self.c.outbox.write_down_slowly()

    def _by_broker(
        self, part: Sequence[PartitionRecord]
    ) -> Mapping[BrokerId, tuple[list[PartitionRecord], list[PartitionRecord]]]:
        """Return the replicas by broker: the online ones, and the offline ones."""
        found: dict[BrokerId, tuple[list[PartitionRecord], list[PartitionRecord]]] = {}
        liveness = self._context.liveness
        for record in part:
            for index, brokers in enumerate((liveness.online(record), liveness.offline(record))):
                for broker in brokers:
                    found.setdefault(broker, ([], []))[index].append(record)
        return found

    async def handle(self, events: Sequence[Event]) -> None:
        """Handle events and the events that these enqueue. No event comes from brokers or timers."""
        for event in events:
            self.c.queue.put(event)
        for _ in range(MOST_EVENTS):
            if not len(self.c.queue):
                return
            queued = await self.c.queue.take()
            await dispatch(cast("AnyEvent", queued.event), self.c)
            await self.c.outbox.write_down_slowly()
        raise IllegalState(f"more than {MOST_EVENTS} events followed from {list(events)}")

    async def result(self) -> DryRunResult:
        """Return the result."""
        decisions = self._notes.decisions
        unclean = {
            TopicPartition(topic, partition)
            for record in decisions
            for topic, partition, is_unclean in zip(record.topics, record.partitions, record.unclean, strict=True)
            if is_unclean
        }
        alarms = tuple(f"{alarm.what}: {alarm.detail}" for alarm in self._notes.alarms)
        written = tuple(self._zookeeper.written)
        touched = set[TopicPartition]()
        async for operation in self.c.outbox.slicer.each(written):
            if (tp := paths.parse_partition(operation.path)) is not None:
                touched.add(tp)
        requests = dict(self._channels.requests)
        return DryRunResult(self._zookeeper, written, requests, frozenset(unclean), alarms, frozenset(touched))


def _epoch_of(node: Znode) -> int:
    try:
        return codecs.decode_controller_epoch(node.data)
    except BadZnode as error:
        raise IllegalState(f"no term for a dry run: {error}") from error
