"""The composition root: builds one instance of controllerd from its configuration and runs it until it is stopped."""

import asyncio
import base64
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from channel_manager.batch import RequestBatch
from channel_manager.manager import Alarms, ChannelManager
from channel_manager.sender import SenderStats
from channel_manager.settings import ChannelSettings
from controllerd.api.listener import Listener
from controllerd.api.server import KafkaServer
from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.clock import LoopTimers, SystemClock
from controllerd.config.model import Config
from controllerd.controller import Controller
from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.sanitizer import our_rack
from controllerd.daemon.bridges import (
    ConfiguredTopics,
    EventStatistics,
    FreezeGuard,
    RecordedExchanges,
    StampedAudit,
)
from controllerd.errors import StoreUnavailable
from controllerd.identity import Identity
from controllerd.loop import EventLoop, WriteWatch
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView, ChannelView, SessionView, StatusSources, WorkerView
from controllerd.zk.client import ZooKeeperClient, open_store
from controllerd.zk.elector import Contender
from controllerd.zk.session import SessionState
from events.cluster import BrokerRefresh, ControllerChange, ShutdownEventThread, Startup
from events.queue import EventQueue
from replay.records import AlarmRecord, ConfigRecord

log = structlog.get_logger(__name__)

_NO_BROKER_EPOCH = -1
_STOP_S = 1.0
_REOPEN_S = 1.0
_BEATS_PER_TIMEOUT = 8
_SAFE_SHARE = 2 / 3
"""The server counts from the last ping, which may be a third of the session time-out old when the process freezes."""
_LONGEST_PAUSE_S = 2.0


class Node:
    """One instance: everything it owns, from the queue to the sockets. Made by ``open_node``."""

    def __init__(self, config: Config, identity: Identity) -> None:
        self.config = config
        self.identity = identity
        self.clock = SystemClock()
        self.queue = EventQueue(self.clock.monotonic)
        self.snapshot = ClusterSnapshot(config.node.id)
        self.stop = asyncio.Event()
        """Set when the instance must end; ``stop_reason`` says why, and is empty for an orderly end."""
        self.stop_reason = ""
        self.has_audit_failed = False
        self._running_loop = asyncio.get_running_loop()
        self.audit = AuditWriter(_audit_settings(config), config.node.id, self.clock, on_resign=self._audit_failed)
        self.watch = WriteWatch(StampedAudit(self.audit))
        self.guard = FreezeGuard(
            config.zookeeper.session_timeout_ms / 1000 * _SAFE_SHARE, lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
        )
        self.statistics = EventStatistics()
        self.timers = LoopTimers(self.queue.put)
        self.context = ControllerContext(config.kafka.features)
        self.kafka = self._kafka_server()
        self.http_port = 0
        self._records_seen = 0
        self._client: ZooKeeperClient | None = None
        self._channels: ChannelManager | None = None
        self._loop: EventLoop | None = None

    def _audit_failed(self, reason: str) -> None:
        """The audit log cannot be written and the configuration says not to go on. Called in the writer's thread."""
        self.has_audit_failed = True
        self._running_loop.call_soon_threadsafe(self.end, f"the audit log cannot be written: {reason}")

    def end(self, reason: str = "") -> None:
        """Ask the instance to end; with a reason it is a failure."""
        self.stop_reason = self.stop_reason or reason
        self.stop.set()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """The event loop and the heartbeat never end by themselves: without either of them the instance must end."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("a task that must not end failed", task=task.get_name(), exc_info=error)
            self.end(f"the task {task.get_name()} failed: {type(error).__name__}: {error}")

    # -- assembly ----------------------------------------------------------------------------------------------------

    def _kafka_server(self) -> KafkaServer:
        listeners = [
            Listener(endpoint.listener, endpoint.host, endpoint.port) for endpoint in self.config.kafka.listeners
        ]
        return KafkaServer(listeners, self.queue, self.snapshot, self.config.node.id, audit=self.watch)

    async def connect(self) -> ZooKeeperClient:
        """Open the ZooKeeper session. :raises StoreUnavailable: nobody answered in time."""
        zookeeper = self.config.zookeeper
        takes = self.config.controller.when_broker_holds == "takeover"
        self._client = await open_store(
            zookeeper.connect,
            session_timeout_ms=zookeeper.session_timeout_ms,
            contender=Contender(self.config.node.id, self.identity.instance, takes),
            queue=self.queue,
            audit=self.watch,
            clock=self.clock,
            connect_timeout_s=zookeeper.connection_timeout_ms / 1000,
        )
        self.snapshot.cluster_id = await self._client.store.cluster_id()
        return self._client

    def open_channels(self) -> ChannelManager:
        """The channels to brokers, with what their troubles mean."""
        alarms = Alarms(
            stale_epoch=lambda _broker, _epoch: self.queue.put(ControllerChange()),
            caught_up=lambda broker: self.queue.put(BrokerRefresh(broker)),
            defect=self._sender_failed,
            may_send=self._may_send,
        )
        kafka = self.config.kafka
        settings = ChannelSettings(
            connect_timeout_s=kafka.controller_socket_timeout_ms / 1000,
            request_timeout_s=kafka.request_timeout_ms / 1000,
        )
        self._channels = ChannelManager(
            self.config.node.id,
            kafka.inter_broker_listener_name,
            self.queue.put,
            alarms,
            clock=self.clock.monotonic,
            settings=settings,
            observer=RecordedExchanges(self.watch),
        )
        return self._channels

    def _sender_failed(self, broker: BrokerId, error: Exception) -> None:
        self.watch.record(AlarmRecord("sender failed", f"broker {broker}: {type(error).__name__}: {error}"))
        # Not at once: if it fails again, each round costs every broker an UpdateMetadata.
        self.timers.put_later(_REOPEN_S, BrokerRefresh(broker, reopen=True))

    def _may_send(self) -> bool:
        connected = self._client is not None and self._client.session.state is SessionState.CONNECTED
        return connected and self.guard.may_send()

    def build_loop(
        self, client: ZooKeeperClient, channels: ChannelManager, on_published: Callable[[], None]
    ) -> EventLoop:
        """The controller and the loop that drives it."""
        context, store, audit = self.context, client.store, self.watch
        client.session.when_lost(channels.shutdown)
        outbox = Outbox(context, channels, audit, self._new_batch)
        configs = ConfiguredTopics(self.config)
        controller = Controller(
            node_id=self.config.node.id,
            context=context,
            store=store,
            elector=client.elector,
            channels=channels,
            queue=self.queue,
            outbox=outbox,
            partitions=PartitionStateMachine(context, store, outbox, audit, configs, self.statistics),
            replicas=ReplicaStateMachine(context, store, outbox, audit),
            audit=audit,
            timers=self.timers,
            clock=self.clock,
            snapshot=self.snapshot,
            new_topic_id=new_topic_id,
            session_expired=client.session.expire_handled,
        )
        self._loop = EventLoop(controller, audit, self.statistics, on_published)
        return self._loop

    def _new_batch(self, context: ControllerContext) -> RequestBatch:
        entry = self._our_entry(context)
        self.snapshot.our_entry = entry
        listener = self.config.kafka.inter_broker_listener_name
        return RequestBatch(self.config.node.id, context, inter_broker_listener=listener, our_entry=entry)

    def _our_entry(self, context: ControllerContext) -> Broker | None:
        """What brokers are told about us; a rack only if all of them have one, and then one of theirs."""
        kafka = self.config.kafka
        endpoints: tuple[Endpoint, ...] = self.kafka.advertised
        if kafka.mode == "hidden":
            return None
        if kafka.mode == "internal":
            endpoints = tuple(e for e in endpoints if e.listener == kafka.inter_broker_listener_name)
        rack = our_rack(context.brokers.values())
        return Broker(BrokerId(self.config.node.id), _NO_BROKER_EPOCH, endpoints, rack)

    # -- status ------------------------------------------------------------------------------------------------------

    def status_server(self) -> StatusServer:
        """The HTTP endpoint over this node."""
        sources = StatusSources(
            instance=self.identity.instance,
            queue=self.queue,
            snapshot=lambda: self.snapshot,
            worker=self._worker_view,
            channels=self._channel_views,
            session=self._session_view,
            audit=self._audit_view,
            now_ms=self.clock.now_ms,
        )
        http = self.config.http
        return StatusServer(sources, http.listen.host, http.listen.port, allow_remote_admin=http.allow_remote_admin)

    def _worker_view(self) -> WorkerView:
        loop, now = self._loop, self.clock.monotonic()
        if loop is None:
            return WorkerView()
        running = loop.current
        if running is None:
            return WorkerView(since_progress_s=now - loop.progressed_at)
        since = now - loop.progressed_at
        return WorkerView(type(running.event).__name__, running.number, since, since)

    def _channel_views(self) -> Mapping[BrokerId, ChannelView]:
        stats = self._channels.stats() if self._channels is not None else []
        return {sender.broker: _channel_view(sender) for sender in stats}

    def _session_view(self) -> SessionView:
        if self._client is None:
            return SessionView("connecting")
        session = self._client.session
        return SessionView(session.state.value, session.session_id, session.generation)

    def _audit_view(self) -> AuditView:
        trouble = "the audit log cannot be written, see the log" if self.audit.is_troubled else None
        return AuditView(self.audit.records_written, self.audit.records_lost, trouble)

    # -- health ------------------------------------------------------------------------------------------------------

    async def heartbeat(self, client: ZooKeeperClient, beat: Callable[[], None]) -> None:
        """Notice that the process slept, validate the epoch before anything leaves again, and feed the watchdog."""
        pause = min(self.config.zookeeper.session_timeout_ms / 1000 / _BEATS_PER_TIMEOUT, _LONGEST_PAUSE_S)
        while True:
            await asyncio.sleep(pause)
            self.guard.tick()
            connected = client.session.state is SessionState.CONNECTED
            if self.guard.is_suspicious and connected:
                await self._revalidate(client)
            # Waiting for ZooKeeper is no fault of ours: a restart would not bring it back.
            if not connected or self._has_progressed():
                beat()

    def _has_progressed(self) -> bool:
        """Whether the event worker is idle, or has done something since the last time we asked."""
        before, self._records_seen = self._records_seen, self.watch.count
        return self._loop is None or self._loop.current is None or self._records_seen > before

    async def _revalidate(self, client: ZooKeeperClient) -> None:
        log.warning("the process was suspended for longer than its session lives")
        self.watch.record(AlarmRecord("process was suspended", "checking whether the role is still ours"))
        try:
            is_valid = self.context.epoch == 0 or await client.elector.is_ours()
        except StoreUnavailable as gone:
            # The session ended in our sleep, as it mostly does. Expire ends the term; the next beat looks again.
            log.warning("the session was lost meanwhile", reason=str(gone))
            return
        if is_valid:
            self.guard.validated()
        else:
            self.queue.put(ControllerChange())


def _channel_view(sender: SenderStats) -> ChannelView:
    return ChannelView(
        sender.depth, sender.oldest_age_s, not sender.failing, sender.last_error if sender.failing else None
    )


def _audit_settings(config: Config) -> AuditSettings:
    audit = config.audit
    return AuditSettings(
        directory=audit.dir,
        fsync=audit.fsync,
        fsync_interval_s=audit.fsync_interval_ms / 1000,
        on_failure=audit.on_failure,
        segment_bytes=audit.segment_bytes,
        segment_age_s=float(audit.segment_age_s),
    )


def new_topic_id() -> str:
    """A random id as Kafka makes them: base64url without padding, never beginning with a dash (KIP-516)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


@asynccontextmanager
async def open_node(
    config: Config,
    identity: Identity,
    *,
    on_published: Callable[[Node], None] = lambda _node: None,
    beat: Callable[[Node], None] = lambda _node: None,
) -> AsyncIterator[Node]:
    """A running instance; leaving the block resigns and closes everything.

    :raises StoreUnavailable: ZooKeeper did not answer in time. :raises OSError: an address cannot be bound.
    """
    node = Node(config, identity)
    async with AsyncExitStack() as stack:
        await node.kafka.start()
        stack.push_async_callback(node.kafka.close)
        status = node.status_server()
        node.http_port = await status.start()
        stack.push_async_callback(status.close)
        stack.push_async_callback(node.audit.close)
        client = await node.connect()
        stack.push_async_callback(client.close)
        await node.audit.start(node.snapshot.cluster_id)
        node.watch.record(ConfigRecord(config.effective()))
        channels = await stack.enter_async_context(node.open_channels())
        loop = node.build_loop(client, channels, lambda: on_published(node))
        events = asyncio.create_task(loop.run(), name="events")
        heartbeat = asyncio.create_task(node.heartbeat(client, lambda: beat(node)), name="heartbeat")
        for task in (events, heartbeat):
            task.add_done_callback(node._task_ended)  # noqa: SLF001  # open_node is the other half of Node
        stack.push_async_callback(_stop, node, events, heartbeat)
        node.queue.put(Startup())
        yield node


async def _stop(node: Node, events: asyncio.Task[None], heartbeat: asyncio.Task[None]) -> None:
    """Resign and end the loop, for a bounded time; then whatever still runs is cancelled."""
    heartbeat.cancel()
    node.queue.clear_and_put(ShutdownEventThread())
    done, _ = await asyncio.wait({events}, timeout=_STOP_S)
    if not done:
        log.warning("the event in work did not end in time", waited_s=_STOP_S)
        events.cancel()
    await asyncio.gather(events, heartbeat, return_exceptions=True)
    node.timers.clear()
