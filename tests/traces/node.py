"""Our controller with its real parts: session, store, elector, channels, Kafka server and event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from channel_manager.batch import RequestBatch
from channel_manager.manager import Alarms, ChannelManager
from channel_manager.settings import ChannelSettings
from controllerd.api.server import KafkaServer
from controllerd.api.server_settings import ServerListener
from controllerd.audit.bus import RecordBus
from controllerd.clock import LoopTimers, SystemClock
from controllerd.controller import ClusterConfigs, Controller, LocalNode, RoleState, Runtime
from controllerd.core.cluster_settings import KAFKAS_DEFAULTS, Policy
from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId
from controllerd.core.sanitizer import our_rack
from controllerd.core.settings_book import fixed_settings
from controllerd.loop import EventLoop, WriteWatch
from controllerd.machines.assembly import build_machines
from controllerd.machines.outbox import Outbox
from controllerd.snapshot import ClusterSnapshot
from controllerd.zk.client import ZooKeeperClient, open_store
from controllerd.zk.elector import Contender
from events.cluster import Startup
from events.queue import EventQueue
from tests.fakes.audit import RecordingAudit
from tests.fakes.listening import HOST
from tests.fakes.world import INSTANCE, NODE_ID, CountedMetrics, FixedConfigs, topic_id_of

LISTENER: Final = "PLAINTEXT"
SESSION_MS: Final = 10_000


@dataclass(frozen=True)
class RunningNode:
    """A node that has begun to contend for the role."""

    controller: Controller
    client: ZooKeeperClient
    server: KafkaServer
    defects: list[Exception]
    """Unexpected errors that ended a sender."""

    @property
    def session_id(self) -> int:
        """The session of our controller's writes."""
        return self.client.session.session_id


@asynccontextmanager
async def running(connect: str, policy: Policy = KAFKAS_DEFAULTS) -> AsyncIterator[RunningNode]:
    """A node on this ZooKeeper, chroot included; everything of it has ended when the block ends."""
    clock, audit, defects = SystemClock(), RecordingAudit(), list[Exception]()
    queue, watch = EventQueue(clock.monotonic), WriteWatch()
    bus = RecordBus(audit, before=[watch])
    contender = Contender(NODE_ID, INSTANCE)
    client = await open_store(
        connect,
        session_timeout_ms=SESSION_MS,
        contender=contender,
        queue=queue,
        audit=bus,
        clock=clock,
        connect_timeout_s=20,
    )
    alarms = Alarms(_nothing, _nothing, lambda _broker, error: defects.append(error))
    snapshot = ClusterSnapshot(NODE_ID)
    server = KafkaServer([ServerListener(LISTENER, HOST, 0)], queue, snapshot, NODE_ID, audit=bus)
    try:
        await server.start()
        # A busy machine must not merge two UpdateMetadata, or the sequences could not be compared.
        settings = ChannelSettings(coalesce=False)
        channel_manager = ChannelManager(NODE_ID, LISTENER, queue.put, alarms, clock=clock.monotonic, settings=settings)
        async with channel_manager as channels:
            controller = _controller(client, queue, bus, channels, clock, snapshot, server, policy)
            loop = EventLoop(controller, watch, CountedMetrics())
            task = asyncio.create_task(loop.run(), name="event loop")
            queue.put(Startup())
            try:
                yield RunningNode(controller, client, server, defects)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    finally:
        await server.close()
        await client.close()


def _nothing(*_: object) -> None:
    """Ignore the call."""


def _controller(
    client: ZooKeeperClient,
    queue: EventQueue,
    bus: RecordBus,
    channels: ChannelManager,
    clock: SystemClock,
    snapshot: ClusterSnapshot,
    server: KafkaServer,
    policy: Policy,
) -> Controller:
    def new_batch(context: ControllerContext) -> RequestBatch:
        return RequestBatch(NODE_ID, context, inter_broker_listener=LISTENER, our_entry=our_entry())

    def our_entry() -> Broker:
        return Broker(BrokerId(NODE_ID), -1, server.advertised, our_rack(context.brokers.values()))

    context = ControllerContext()
    outbox = Outbox(context, channels, bus, new_batch)
    configs = FixedConfigs()
    machines = build_machines(context, client.store, outbox, bus, configs, CountedMetrics())
    return Controller(
        local=LocalNode(NODE_ID, our_entry),
        context=context,
        store=client.store,
        machines=machines,
        outbox=outbox,
        channels=channels,
        queue=queue,
        audit=bus,
        snapshot=snapshot,
        role=RoleState(client.elector, client.elector.registrar, client.session.expire_handled),
        configs=ClusterConfigs(configs, fixed_settings(policy)),
        runtime=Runtime(clock, LoopTimers(queue.put), lambda: topic_id_of("made by the controller"), lambda _below: 0),
    )
