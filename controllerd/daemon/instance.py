"""Composes one controller, without listeners and threads.

``ControllerNode`` adds the Kafka server, the audit writer and the status endpoint.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import structlog

from channel_manager.batch import RequestBatch
from channel_manager.manager import Alarms, ChannelManager
from channel_manager.observer import AllObserve
from controllerd.audit.bus import RecordBus, Subscriber
from controllerd.audit.checkpoints import Checkpoints
from controllerd.audit.settings import is_written
from controllerd.clock import LoopTimers
from controllerd.config.model import Config
from controllerd.controller import ClusterConfigs, Controller, LocalNode, RoleState, Runtime
from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.mutation_quota import MutationQuotas
from controllerd.core.resolved_settings import ConfiguredTopics
from controllerd.core.sanitizer import our_rack
from controllerd.daemon.auditing import RecordedExchanges
from controllerd.daemon.discovering import Discovery
from controllerd.daemon.freeze_guard import FreezeGuard
from controllerd.daemon.host_environment import HostEnvironment
from controllerd.daemon.metering import EventStatistics, RecordMetrics
from controllerd.errors import StoreUnavailable
from controllerd.loop import EventLoop, WriteWatch
from controllerd.machines.assembly import build_machines
from controllerd.machines.outbox import Outbox
from controllerd.ports.audit import AuditLog
from controllerd.record.records import AlarmRecord
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.metrics.meters import Meters
from controllerd.zk.client import ZooKeeperClient, open_store
from controllerd.zk.elector import Contender
from controllerd.zk.session import SessionState
from events.cluster import BrokerRefresh, ControllerChange, ShutdownEventThread, Startup
from events.queue import EventQueue

log = structlog.get_logger(__name__)

_NO_BROKER_EPOCH = -1
_STOP_S = 1.0
_REOPEN_S = 1.0
_BEATS_PER_TIMEOUT = 8
_SAFE_SHARE = 2 / 3
"""The freeze limit as a share of the session timeout. ZooKeeper counts from the last ping, which may be a third of the
session timeout old."""
_LONGEST_PAUSE_S = 2.0


class Instance:
    """One controller: its queue, session, channels and event loop. Call ``connect`` first, then ``serving``."""

    def __init__(
        self,
        config: Config,
        instance: str,
        writer: AuditLog,
        advertised: Callable[[], tuple[Endpoint, ...]],
        around: HostEnvironment | None = None,
        readers: Sequence[Subscriber] = (),
    ) -> None:
        """``instance`` is the uuid of ``/controller``; ``advertised`` gives the endpoints that brokers connect to.

        ``writer`` writes the audit log; ``readers`` receive each record after it.
        """
        self.config = config
        self.around = around or HostEnvironment()
        self.queue = EventQueue(self.around.clock.monotonic)
        self.snapshot = ClusterSnapshot(config.node.id)
        self.stop = asyncio.Event()
        """Set when the instance must end. ``stop_reason`` is empty for an orderly end."""
        self.stop_reason = ""
        self.meters = Meters(self.around.clock.monotonic)
        self.watch = WriteWatch()
        self.bus = RecordBus(writer, before=[self.watch], after=[*readers, RecordMetrics(self.meters)])
        self._session_timeout_s = self._asked_timeout_s
        """The session timeout in seconds: the requested one, or the granted one once there is a session."""
        self.guard = FreezeGuard(self._session_timeout_s * _SAFE_SHARE, self.around.boottime, self._stop_sending)
        self.statistics = EventStatistics(self.meters.events)
        self.discovery = Discovery(config, self.around.stored_settings, self.snapshot)
        self.settings = self.discovery.book
        self.topic_defaults = ConfiguredTopics(lambda: self.settings.current)
        self.timers = LoopTimers(self.queue.put)
        self.context = ControllerContext(self.settings.features)
        self.client: ZooKeeperClient | None = None
        self.channels: ChannelManager | None = None
        self.loop: EventLoop | None = None
        self.checkpoints = self._build_checkpoints()
        self.beat_within_s: float | None = None
        """The longest time between two beats, as the watchdog requires."""
        self._instance = instance
        self._advertised = advertised
        self._records_seen = 0
        self._checking: asyncio.Task[None] | None = None
        self._denied: dict[tuple[BrokerId, int], float] = {}
        """The time of the latest response with a stale epoch that put the leadership in doubt, by broker and epoch."""

    def end(self, reason: str = "") -> None:
        """Ask the instance to end; with a reason it is a failure."""
        self.stop_reason = self.stop_reason or reason
        self.stop.set()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """End the instance if one of its tasks failed: it cannot work without the event loop or the heartbeat."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("essential task failed", task=task.get_name(), exc_info=error)
            self.end(f"the task {task.get_name()} failed: {type(error).__name__}: {error}")

    # -- assembly ----------------------------------------------------------------------------------------------------

    def _build_checkpoints(self) -> Checkpoints:
        audit = self.config.audit
        is_off = audit.level == "off"
        return Checkpoints(
            self.context,
            self.snapshot,
            self.bus,
            self.around.clock.monotonic,
            snapshot_interval_s=math.inf if is_off else audit.snapshot_interval_s,
            digest_interval_s=math.inf if is_off else audit.digest_interval_s,
        )

    async def connect(self) -> ZooKeeperClient:
        """Open the ZooKeeper session.

        :raises StoreUnavailable: no server answered in time.
        :raises RefusedToLead: this instance must not lead this cluster.
        """
        zookeeper = self.config.zookeeper
        takes = self.config.controller.when_broker_holds == "takeover"
        self.client = await open_store(
            zookeeper.connect,
            session_timeout_ms=zookeeper.session_timeout_ms,
            contender=Contender(self.config.node.id, self._instance, takes, self.config.kafka.reach),
            queue=self.queue,
            audit=self.bus,
            clock=self.around.clock,
            connect_timeout_s=zookeeper.connection_timeout_ms / 1000,
            kazoo=self.around.kazoo,
            timings=self.meters.zookeeper,
        )
        self.client.session.when_timeout_is_granted(self._timeout_granted)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.client.close)
            await self.client.elector.check_eligibility()
            self.snapshot.cluster_id = await self.client.store.cluster.cluster_id()
            await self.discovery.recall()
            stack.pop_all()
        return self.client

    def _timeout_granted(self, timeout_s: float) -> None:
        """Use the session timeout that ZooKeeper granted, which may differ from the requested one."""
        if timeout_s != self._session_timeout_s:
            log.info("zookeeper session timeout granted", asked_s=self._asked_timeout_s, granted_s=timeout_s)
        self._session_timeout_s = timeout_s
        self.guard.set_limit(timeout_s * _SAFE_SHARE)

    @property
    def _asked_timeout_s(self) -> float:
        return self.config.zookeeper.session_timeout_ms / 1000

    def take_from_brokers(self) -> None:
        """From now on take the role from brokers without a request. Call ``connect`` first."""
        assert self.client is not None
        self.client.elector.take_from_brokers()

    @asynccontextmanager
    async def serving(self, on_published: Callable[[], None], beat: Callable[[], None]) -> AsyncIterator[None]:
        """Contend for the role and serve; leaving the block resigns. ``connect`` must have succeeded."""
        assert self.client is not None
        async with AsyncExitStack() as stack:
            channels = await stack.enter_async_context(self._open_channels())
            self.loop = self._build_loop(self.client, channels, partial(self._published, on_published))
            events = asyncio.create_task(self.loop.run(), name="events")
            heartbeat = asyncio.create_task(self.heartbeat(self.client, beat), name="heartbeat")
            checkpoints = asyncio.create_task(self.checkpoints.run(self._is_idle), name="checkpoints")
            asking = self._start_asking(self.client)
            for task in (events, heartbeat, checkpoints, asking):
                task.add_done_callback(self._task_ended)
            stack.push_async_callback(self._stop, events, heartbeat, checkpoints, asking)
            await self.discovery.wait_for_first_answers()
            self.queue.put(Startup())
            yield

    def _use_settings(self, channels: ChannelManager) -> None:
        channels.use(self.discovery.channel_settings())
        self.discovery.learned()

    def _start_asking(self, client: ZooKeeperClient) -> asyncio.Task[None]:
        around = self.around
        return self.discovery.start(
            client.store.brokers.list_brokers, self.queue.put, around.clock.monotonic, around.transport
        )

    def _published(self, then: Callable[[], None]) -> None:
        self.meters.unavailable.note(self.snapshot.offline_partitions if self.snapshot.is_active else 0)
        self.discovery.published()
        then()

    def _is_idle(self) -> bool:
        return self.loop is not None and self.loop.current is None

    async def _stop(self, events: asyncio.Task[None], *others: asyncio.Task[None]) -> None:
        """Resign and end the loop, for a bounded time; then cancel the tasks that still run."""
        for task in others:
            task.cancel()
        if self._checking is not None:
            self._checking.cancel()
        self.queue.clear_and_put(ShutdownEventThread())
        done, _ = await asyncio.wait({events}, timeout=_STOP_S)
        if not done:
            log.warning("cancelled event that exceeded the stop timeout", waited_s=_STOP_S)
            events.cancel()
        await asyncio.gather(events, *others, return_exceptions=True)
        self.timers.clear()

    def _open_channels(self) -> ChannelManager:
        """Open the channels to brokers, with the reactions to their alarms."""
        alarms = Alarms(
            stale_epoch=self._stale_epoch,
            caught_up=lambda broker: self.queue.put(BrokerRefresh(broker)),
            defect=self._sender_failed,
            may_send=self._may_send,
        )
        kafka = self.config.kafka
        self.channels = ChannelManager(
            self.config.node.id,
            kafka.controller_listener_name,
            self.queue.put,
            alarms,
            clock=self.around.clock.monotonic,
            settings=self.discovery.channel_settings(),
            observer=AllObserve(
                self.meters.channels, RecordedExchanges(self.bus, in_full=self.config.audit.level == "full")
            ),
            transport=self.around.transport,
        )
        return self.channels

    def _stop_sending(self) -> None:
        if self.channels is not None:
            self.channels.disconnect()

    def _stale_epoch(self, broker: BrokerId, epoch: int) -> None:
        """Hold all requests, because a broker knows a newer controller epoch, until ZooKeeper has confirmed the role.

        A broker that repeats this, although ZooKeeper confirms the role, must not stop the requests to other brokers
        each time. So only its first response within a session timeout counts.
        """
        now = self.around.clock.monotonic()
        denied_at = self._denied.get((broker, epoch))
        if denied_at is None or now - denied_at > self._session_timeout_s:
            self._denied[broker, epoch] = now
            self.guard.put_in_doubt("a broker knows a newer controller epoch")
        self.queue.put(ControllerChange())

    def _sender_failed(self, broker: BrokerId, error: Exception) -> None:
        self.bus.record(AlarmRecord("sender failed", f"broker {broker}: {type(error).__name__}: {error}"))
        # The reopening is delayed: if the sender fails again, each round costs every broker an UpdateMetadata.
        self.timers.put_later(_REOPEN_S, BrokerRefresh(broker, reopen=True))

    def _may_send(self) -> bool:
        connected = self.client is not None and self.client.session.state is SessionState.CONNECTED
        return connected and self.guard.may_send()

    def _build_loop(
        self, client: ZooKeeperClient, channels: ChannelManager, on_published: Callable[[], None]
    ) -> EventLoop:
        """Build the controller and its event loop."""
        context, store, audit = self.context, client.store, self.bus
        client.session.when_lost(channels.shutdown)
        level = self.config.audit.level
        takes = partial(is_written, level)
        outbox = Outbox(
            context, channels, audit, self._new_batch, self.around.slicer(), takes, names_partitions=level == "full"
        )
        controller = Controller(
            local=LocalNode(
                self.config.node.id,
                partial(self._our_entry, context),
                self.config.kafka.register,
                self.config.kafka.reach,
            ),
            context=context,
            store=store,
            machines=build_machines(context, store, outbox, audit, self.topic_defaults, self.statistics),
            outbox=outbox,
            channels=channels,
            queue=self.queue,
            audit=audit,
            snapshot=self.snapshot,
            role=RoleState(client.elector, client.elector.registrar, client.session.expire_handled),
            configs=self._cluster_configs(channels),
            runtime=Runtime(self.around.clock, self.timers, self.around.new_topic_id, self.around.draw),
        )
        return EventLoop(
            controller,
            self.watch,
            self.statistics,
            on_published,
            self.around.collector,
            in_full=level == "full",
            at_rest=self.checkpoints.step,
        )

    def _cluster_configs(self, channels: ChannelManager) -> ClusterConfigs:
        return ClusterConfigs(
            self.topic_defaults,
            self.settings,
            MutationQuotas(self.settings.current.quota_window),
            ask_brokers=self.discovery.ask_soon,
            use_settings=partial(self._use_settings, channels),
        )

    def _new_batch(self, context: ControllerContext) -> RequestBatch:
        entry = self._our_entry(context)
        self.snapshot.our_entry = entry
        listener = self.config.kafka.inter_broker_listener_name
        return RequestBatch(self.config.node.id, context, inter_broker_listener=listener, our_entry=entry)

    def _our_entry(self, context: ControllerContext) -> Broker | None:
        """The entry of this instance in UpdateMetadata. It has a rack of a broker, if all brokers have racks."""
        kafka = self.config.kafka
        endpoints = self._advertised()
        if kafka.mode == "hidden":
            return None
        if kafka.mode == "internal":
            endpoints = tuple(e for e in endpoints if e.listener in kafka.reach.broker_listeners)
        rack = our_rack(context.brokers.values())
        return Broker(BrokerId(self.config.node.id), _NO_BROKER_EPOCH, endpoints, rack)

    # -- health ------------------------------------------------------------------------------------------------------

    async def heartbeat(self, client: ZooKeeperClient, beat: Callable[[], None]) -> None:
        """Notice freezes of the process, revalidate the epoch after them, and feed the watchdog."""
        within_s = self.beat_within_s or _LONGEST_PAUSE_S
        while True:
            await asyncio.sleep(min(self._session_timeout_s / _BEATS_PER_TIMEOUT, _LONGEST_PAUSE_S, within_s))
            self.guard.tick()
            connected = client.session.state is SessionState.CONNECTED
            if self.guard.is_in_doubt and connected and (self._checking is None or self._checking.done()):
                # A task of its own: it may wait for ZooKeeper longer than the watchdog allows.
                self._checking = asyncio.create_task(self._revalidate(client), name="validation")
                self._checking.add_done_callback(self._task_ended)
            # The watchdog is fed while ZooKeeper is unavailable: a restart would not help.
            if not connected or self._has_progressed():
                beat()

    def _has_progressed(self) -> bool:
        """Whether the event worker is idle, or has recorded something since the last call."""
        before, self._records_seen = self._records_seen, self.watch.count
        return self.loop is None or self.loop.current is None or self._records_seen > before

    async def _revalidate(self, client: ZooKeeperClient) -> None:
        log.warning("held requests until the role is validated", reason=self.guard.reason)
        self.bus.record(AlarmRecord(self.guard.reason, "checking whether the role is still ours"))
        doubts = self.guard.doubts
        try:
            await client.zk.sync()  # a server that lags behind could confirm a lost role
            is_valid = self.context.epoch == 0 or await client.elector.is_ours()
        except StoreUnavailable as gone:
            # The session usually expires during a freeze. Expire ends the term; the next beat validates again.
            log.warning("lost session during validation of the role", reason=str(gone))
            return
        if is_valid:
            self.guard.revalidated(doubts)
        else:
            self.queue.put(ControllerChange())
