"""One instance as a process: the controller with its Kafka server, audit writer and status endpoint."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from channel_manager.sender import QueuedRequest, SenderStats
from controllerd.api.replica_sizes import ReplicaSizes, polling
from controllerd.api.server import KafkaServer
from controllerd.api.server_settings import ServerListener
from controllerd.api.shared_versions import SharedVersions
from controllerd.audit.bus import RecordBus, Subscriber
from controllerd.audit.exporting import HeadExporter
from controllerd.audit.writer import AuditWriter
from controllerd.config.model import Config
from controllerd.core.model import BrokerId, Endpoint
from controllerd.daemon.auditing import audit_settings, audit_view, export_settings, exporting
from controllerd.daemon.comparing import ClusterComparison
from controllerd.daemon.host_environment import HostEnvironment
from controllerd.daemon.instance import Instance
from controllerd.daemon.metering import measuring_lag
from controllerd.daemon.reloading import Renewal
from controllerd.daemon.role_memory import RoleMemoryFile
from controllerd.daemon.settings_memory import SettingsFile
from controllerd.daemon.summaries import EventSummaries
from controllerd.daemon.topic_settings import CachedTopicSettings
from controllerd.errors import BadZnode
from controllerd.identity import Identity
from controllerd.kafkalogs.sink import KafkaLogs
from controllerd.recent import Recent
from controllerd.record.records import ConfigRecord
from controllerd.slicer import Turnstile
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.server import StatusServer
from controllerd.status.sources import StatusSources
from controllerd.views import ChannelView, SessionView, WorkerView
from controllerd.zk.access import ZooKeeper
from controllerd.zk.store_cluster import put_audit_head

_CLOSE_S = 0.5
"""The longest wait at the end for Kafka's own logs, in seconds."""


class ControllerNode:
    """One instance with everything that it owns, from the queue to the sockets. ``open_node`` makes it."""

    def __init__(self, config: Config, identity: Identity) -> None:
        self.config = config
        self.identity = identity
        self.has_audit_failed = False
        self.http_port = 0
        self.renewals: list[Renewal] = []
        """Functions that read files of secrets again when the daemon reloads."""
        around = HostEnvironment(stored_settings=SettingsFile(config.node.data_dir))
        self.audit = AuditWriter(audit_settings(config), config.node.id, around.clock, on_resign=self._audit_failed)
        put_head = self._put_head if config.audit.head_znode else None
        self.heads = HeadExporter(export_settings(config), self.audit, around.clock.now_ms, put_head)
        self.recent = Recent(around.clock)
        folder = config.log.kafka_format_dir
        self.kafka_logs = KafkaLogs(around.clock, config.node.id, folder) if folder else None
        readers = self._readers()
        self.instance = Instance(config, identity.instance, self.audit, lambda: self.kafka.advertised, around, readers)
        self.instance.checkpoints.gaps = lambda: self.audit.gaps
        listeners = [_listener(endpoint, config.kafka.advertised(endpoint)) for endpoint in config.kafka.listeners]
        queue, bus = self.instance.queue, self.instance.bus
        self.kafka = KafkaServer(
            listeners,
            queue,
            self.snapshot,
            config.node.id,
            audit=bus,
            settings=self.instance.settings,
            now=around.clock.monotonic,
            transport=around.transport,
            shared=SharedVersions(lambda: self.instance.settings.policy.protocol_release, identity.data_dir),
            between_brokers=config.kafka.reach.broker_listeners,
        )
        self.sizes = ReplicaSizes(
            self.snapshot,
            config.kafka.inter_broker_listener_name,
            around.clock.monotonic,
            transport=around.transport,
        )
        self.turnstile = Turnstile(lambda: self._worker_view().is_brief)
        self.comparing = ClusterComparison(
            self.snapshot,
            lambda: self.zookeeper,
            lambda: self.instance.context.features,
            config.kafka.inter_broker_listener_name,
            transport=around.transport,
            turnstile=self.turnstile,
        )
        self._running_loop = asyncio.get_running_loop()

    def _readers(self) -> Sequence[Subscriber]:
        kafka_logs = [self.kafka_logs] if self.kafka_logs is not None else []
        return [self.recent, *kafka_logs, EventSummaries()]

    @property
    def bus(self) -> RecordBus:
        """The bus that gives records to the audit log and its readers."""
        return self.instance.bus

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The published snapshot."""
        return self.instance.snapshot

    def _audit_failed(self, reason: str) -> None:
        """End the instance, because the audit log cannot be written and ``on_failure`` is ``resign``.

        Called in the writer's thread.
        """
        self.has_audit_failed = True
        self._running_loop.call_soon_threadsafe(self.instance.end, f"the audit log cannot be written: {reason}")

    @property
    def zookeeper(self) -> ZooKeeper:
        """The ZooKeeper session. All its users end before it."""
        assert self.instance.client is not None, "the session is open"
        return self.instance.client.zk

    async def _put_head(self, head: bytes) -> None:
        await put_audit_head(self.zookeeper, self.config.node.id, head)

    # -- status ------------------------------------------------------------------------------------------------------

    def status_server(self) -> StatusServer:
        """Make the HTTP endpoint of this node."""
        sources = StatusSources(
            instance=self.identity.instance,
            queue=self.instance.queue,
            snapshot=lambda: self.snapshot,
            worker=self._worker_view,
            channels=self._channel_views,
            session=self._session_view,
            audit=lambda: audit_view(self.audit, self.heads),
            now_ms=self.instance.around.clock.now_ms,
            recent=self.recent,
            record=self.bus.record,
            pending=self._pending,
            settings=self._topic_settings(),
            cluster_settings=lambda: self.instance.settings.current,
            config=self.config.effective,
            replica_sizes=self.sizes.view,
            measure=self.sizes.measure,
            compare=self.comparing.compare,
            turnstile=self.turnstile,
            memory=RoleMemoryFile(self.config, self.identity, self.instance.bus, self.instance.take_from_brokers),
            meters=self.instance.meters,
        )
        return StatusServer(sources, self.config.http, metrics=self.config.metrics)

    def _topic_settings(self) -> CachedTopicSettings:
        around = self.instance.around
        return CachedTopicSettings(
            self._read_topic_configs,
            self.instance.settings,
            self.instance.topic_defaults.unclean_by_default,
            lambda: self.instance.snapshot.is_active,
            around.clock.monotonic,
        )

    async def _read_topic_configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        assert self.instance.client is not None, "the endpoint opens after the session"
        return await self.instance.client.store.configs.read_topic_configs(topics)

    def _worker_view(self) -> WorkerView:
        loop, now = self.instance.loop, self.instance.around.clock.monotonic()
        if loop is None:
            return WorkerView()
        running = loop.current
        if running is None:
            return WorkerView(since_progress_s=now - loop.progressed_at)
        since = now - loop.progressed_at
        return WorkerView(type(running.event).__name__, running.number, since, since, running.event.state)

    def _channel_views(self) -> Mapping[BrokerId, ChannelView]:
        channels = self.instance.channels
        stats = channels.stats() if channels is not None else []
        return {sender.broker: _channel_view(sender) for sender in stats}

    def _pending(self, broker: BrokerId, limit: int) -> Sequence[QueuedRequest]:
        channels = self.instance.channels
        return channels.first_requests(broker, limit) if channels is not None else ()

    def _session_view(self) -> SessionView:
        assert self.instance.client is not None, "the endpoint opens after the session"
        session = self.instance.client.session
        return SessionView(session.state.value, session.session_id, session.generation)


def _listener(bound: Endpoint, advertised: Endpoint) -> ServerListener:
    return ServerListener(bound.listener, bound.host, bound.port, advertised.host, advertised.port or None)


def _channel_view(sender: SenderStats) -> ChannelView:
    return ChannelView(
        sender.depth,
        sender.oldest_age_s,
        not sender.failing,
        sender.last_error if sender.failing else None,
        sender.queued_bytes,
        sender.in_flight,
        sender.attempts,
        sender.last_sent_s,
        sender.last_answered_s,
    )


@asynccontextmanager
async def open_node(
    config: Config,
    identity: Identity,
    *,
    on_published: Callable[[ControllerNode], None] = lambda _node: None,
    beat: Callable[[ControllerNode], None] = lambda _node: None,
    beat_within_s: float | None = None,
) -> AsyncIterator[ControllerNode]:
    """Open an instance; leaving the block resigns and closes everything.

    ``beat_within_s`` is the longest time between two beats. No address and no audit log is opened before ZooKeeper has
    shown that this instance may lead the cluster.

    :raises StoreUnavailable: ZooKeeper did not answer in time. :raises OSError: an address cannot be bound.
    :raises RefusedToLead: this instance must not lead this cluster, or not with its configuration.
    """
    node = ControllerNode(config, identity)
    node.instance.beat_within_s = beat_within_s
    async with AsyncExitStack() as sockets, AsyncExitStack() as stack:
        stack.push_async_callback(node.heads.finish)
        stack.push_async_callback(node.audit.close)
        client = await node.instance.connect()
        stack.push_async_callback(client.close)
        await node.kafka.start()
        sockets.push_async_callback(node.kafka.close)
        status = node.status_server()
        node.renewals.append(status.listener.reload)
        node.http_port = await status.start()
        sockets.push_async_callback(status.close)
        await node.audit.start(node.snapshot.cluster_id)
        await stack.enter_async_context(exporting(node.heads))
        if node.kafka_logs is not None:
            node.kafka_logs.start()
            stack.push_async_callback(asyncio.to_thread, node.kafka_logs.close, _CLOSE_S)
        node.bus.record(ConfigRecord(config.effective()))
        serving = node.instance.serving(lambda: on_published(node), lambda: beat(node))
        await stack.enter_async_context(serving)
        await stack.enter_async_context(polling(node.sizes))
        await stack.enter_async_context(measuring_lag(node.instance.meters))
        yield node
