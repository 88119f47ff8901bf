"""An instance in the mode ``observe``: no election, no Kafka listener, no event loop, and a read-only session.

The observer has the same audit log and status endpoint as a controller.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog

from controllerd.audit.bus import RecordBus
from controllerd.audit.exporting import HeadExporter
from controllerd.audit.writer import AuditWriter
from controllerd.clock import SystemClock
from controllerd.config.model import Config
from controllerd.core.model import Broker
from controllerd.daemon.auditing import audit_settings, audit_view, export_settings, exporting
from controllerd.daemon.comparing import ClusterComparison
from controllerd.daemon.discovering import Discovery
from controllerd.daemon.metering import measuring_lag
from controllerd.daemon.reloading import Renewal
from controllerd.daemon.settings_memory import SettingsFile
from controllerd.errors import NoCluster, RefusedToLead, StoreUnavailable
from controllerd.identity import Identity
from controllerd.observer.causes import UnexplainedKind
from controllerd.observer.dry_run_collaborators import WatchedConfiguration, watched_configuration
from controllerd.observer.mirror import Mirror
from controllerd.observer.observer import Observer
from controllerd.observer.report import CANNOT_BE_SEEN, ObservationReport, verdict_text
from controllerd.recent import Recent
from controllerd.record.records import ConfigRecord
from controllerd.services.settings_changes import record_settings_changes
from controllerd.slicer import Turnstile, prioritise_event_loop
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.metrics.meters import Meters
from controllerd.status.server import StatusServer
from controllerd.status.sources import ComparedPartition, ObservationsView, StatusSources
from controllerd.views import Role, SessionView, WorkerView
from controllerd.zk import paths
from controllerd.zk.access import Znode, ZooKeeper
from controllerd.zk.client import ReadOnlyClient, open_read_only
from controllerd.zk.eligibility import refuse_unless_eligible
from controllerd.zk.image import ClusterImage
from controllerd.zk.read_only import read_cluster_id
from controllerd.zk.rejections import Rejections
from controllerd.zk.session import SessionState
from events.base import Event
from events.cluster import Expire, RegisterBrokerAndReelect
from events.queue import EventQueue
from events.responses import BrokerSettingsReceived
from wire.transport import PLAINTEXT

log = structlog.get_logger(__name__)

ELIGIBILITY_INTERVAL_S: Final = 10.0
"""The interval, in seconds, between two checks whether this instance would refuse to lead."""
_BEAT_S: Final = 2.0
_STUCK_S: Final = 30.0


class SessionEvents:
    """Receives the events of the ZooKeeper session. Only the end of a session and the next session matter here."""

    def __init__(self) -> None:
        self._ended, self._renewed = asyncio.Event(), asyncio.Event()

    def put(self, event: Event) -> None:
        """Take an event of the session."""
        if isinstance(event, RegisterBrokerAndReelect):
            self._renewed.set()

    def clear_and_put(self, event: Event) -> None:
        """Take an event that ended the session."""
        if isinstance(event, Expire):
            self._ended.set()

    async def next(self, client: ReadOnlyClient) -> None:
        """Wait until the lost session has ended, confirm its end, and wait for the next one.

        Call it after ``StoreUnavailable``.
        """
        await self._ended.wait()
        self._ended.clear()
        client.session.expire_handled()
        await self._renewed.wait()
        self._renewed.clear()


class ObservingNode:
    """One observing instance with everything that it owns. ``open_observer`` makes it."""

    def __init__(self, config: Config, identity: Identity) -> None:
        self.config, self.identity = config, identity
        self.snapshot = ClusterSnapshot(config.node.id)
        self.stop = asyncio.Event()
        """Set when the instance must end. ``stop_reason`` is empty for an orderly end."""
        self.stop_reason = ""
        self.has_audit_failed = False
        self.http_port = 0
        self.renewals: list[Renewal] = []
        """Functions that read files of secrets again when the daemon reloads."""
        self.beat_within_s: float | None = None
        self.observer: Observer | None = None
        """None until the session is open."""
        self._clock = SystemClock()
        self.audit = AuditWriter(audit_settings(config), config.node.id, self._clock, on_resign=self._audit_failed)
        self.recent = Recent(self._clock)
        self.bus = RecordBus(self.audit, after=[self.recent])
        self.heads = HeadExporter(export_settings(config), self.audit, self._clock.now_ms)
        self._rejections = Rejections(self.bus)
        self.meters = Meters(self._clock.monotonic)
        self._calls = EventQueue(self._clock.monotonic)
        self._calls.close()  # no event task would handle them
        self._sessions = SessionEvents()
        self.client: ReadOnlyClient | None = None
        self.discovery = Discovery(config, SettingsFile(config.node.data_dir), self.snapshot)
        self._mirror = Mirror(self.discovery.book.features, self.snapshot)
        self._on_published: Callable[[], None] = lambda: None
        self._refusal: str | None = None
        self._checked_at: float | None = None
        self._turnstile = Turnstile()
        self._comparing = ClusterComparison(
            self.snapshot,
            self._zookeeper,
            lambda: self.discovery.book.features,
            config.kafka.inter_broker_listener_name,
            turnstile=self._turnstile,
        )
        self._running_loop = asyncio.get_running_loop()

    def end(self, reason: str = "") -> None:
        """Ask the instance to end; with a reason it is a failure."""
        self.stop_reason = self.stop_reason or reason
        self.stop.set()

    def _audit_failed(self, reason: str) -> None:
        """End the instance, because the audit log cannot be written and ``on_failure`` is ``resign``.

        Called in the writer's thread.
        """
        self.has_audit_failed = True
        self._running_loop.call_soon_threadsafe(self.end, f"the audit log cannot be written: {reason}")

    # -- watching ----------------------------------------------------------------------------------------------------

    async def connect(self) -> ReadOnlyClient:
        """Open the session. :raises StoreUnavailable: no server answered in time."""
        zookeeper = self.config.zookeeper
        self.client = await open_read_only(
            zookeeper.connect,
            session_timeout_ms=zookeeper.session_timeout_ms,
            queue=self._sessions,
            audit=self.bus,
            connect_timeout_s=zookeeper.connection_timeout_ms / 1000,
            timings=self.meters.zookeeper,
        )
        return self.client

    async def find_cluster(self, client: ReadOnlyClient) -> None:
        """Read the id of the cluster, and load its stored settings.

        :raises NoCluster: there is no cluster. :raises BadZnode: the znode of its id is unreadable.
        """
        cluster_id = await read_cluster_id(client.zk)
        if cluster_id is None:
            raise NoCluster(
                f"no broker was ever started at {self.config.zookeeper.connect}: {paths.CLUSTER_ID} is missing"
            )
        self.snapshot.cluster_id = cluster_id
        await self.discovery.recall()

    @asynccontextmanager
    async def watching(
        self, client: ReadOnlyClient, on_published: Callable[[], None], beat: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Observe the cluster until the block is left."""
        self._on_published = on_published
        self.observer = Observer(
            client.zk,
            self._configuration,
            self._clock,
            self.bus,
            interval_s=self.config.controller.observe_interval_ms / 1000,
            show=self._show,
            when_torn=self._publish_torn,
        )
        tasks = [
            asyncio.create_task(self._watch(self.observer, client), name="observer"),
            asyncio.create_task(self._heartbeat(beat), name="heartbeat"),
            self.discovery.start(self._registered, self._take_settings, self._clock.monotonic, PLAINTEXT),
        ]
        for task in tasks:
            task.add_done_callback(self._task_ended)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.snapshot.role = Role.STOPPING

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("essential task failed", task=task.get_name(), exc_info=error)
            self.end(f"the task {task.get_name()} failed: {type(error).__name__}: {error}")

    async def _watch(self, observer: Observer, client: ReadOnlyClient) -> None:
        prioritise_event_loop()
        while True:
            try:
                await observer.run()
            except StoreUnavailable as gone:
                log.warning("lost zookeeper, observation resumes with the next session", reason=str(gone))
                await observer.suspend()
                self.snapshot.reason = "ZooKeeper is unavailable: the snapshot may be out of date"
                await self._sessions.next(client)

    async def _show(self, image: ClusterImage) -> None:
        """Publish the newest image, and set the role and its reason."""
        assert self.client is not None
        await self._check_eligibility(self.client, image)
        await self._mirror.show(image)
        self.discovery.published()
        self.snapshot.role = Role.OBSERVER
        holder = self.snapshot.holder
        watched = f"watches {holder}" if holder is not None else "no controller holds the role"
        self.snapshot.reason = watched + (f"; would refuse to lead: {self._refusal}" if self._refusal else "")
        self._on_published()

    # -- settings ----------------------------------------------------------------------------------------------------

    async def _registered(self) -> Sequence[Broker]:
        """The brokers of the newest image; nothing is read again for them."""
        return list(self.snapshot.brokers.values())

    def _take_settings(self, event: BrokerSettingsReceived) -> None:
        """Use the answers of brokers at once: an observer has no event task."""
        book = self.discovery.book
        before = book.current
        book.take(event.answers, event.registered)
        record_settings_changes(before, book.current, self.bus)
        if book.current.refusal != before.refusal:
            self._checked_at = None  # so that the next image publishes the new refusal

    def _configuration(self) -> WatchedConfiguration:
        """Return the configuration of the observed controller, as far as it is known."""
        listener = self.config.kafka.controller_listener_name
        registered = {broker.id: broker.epoch for broker in self.snapshot.brokers.values()}
        return watched_configuration(
            self.config.node.id, listener, self.snapshot.holder, self.discovery.book, registered
        )

    # -- showing -----------------------------------------------------------------------------------------------------

    def _publish_torn(self) -> None:
        """Publish that the snapshot is old, because every recent image was torn and nothing newer can be published."""
        self.snapshot.reason = "brokers or the controller change during each reading: the snapshot may be out of date"

    async def _check_eligibility(self, client: ReadOnlyClient, image: ClusterImage) -> None:
        """Check whether this instance would refuse to lead this cluster, less often than the cluster is read."""
        now = self._clock.monotonic()
        if self._checked_at is not None and now - self._checked_at < ELIGIBILITY_INTERVAL_S:
            return
        self._checked_at = now
        refusal = await self._find_refusal(client, image.nodes.get(paths.CONTROLLER))
        if refusal is not None and refusal != self._refusal:
            log.warning("would refuse to lead", reason=refusal)
        self._refusal = refusal

    async def _find_refusal(self, client: ReadOnlyClient, controller: Znode | None) -> str | None:
        """The reason to refuse to lead: the cluster in ZooKeeper, or else the settings of brokers; None without one."""
        kafka = self.config.kafka
        try:
            await refuse_unless_eligible(client.zk, self.config.node.id, controller, self._rejections, kafka.reach)
        except RefusedToLead as refusal:
            return str(refusal)
        return self.discovery.book.current.refusal

    # -- health ------------------------------------------------------------------------------------------------------

    async def _heartbeat(self, beat: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(min(_BEAT_S, self.beat_within_s or _BEAT_S))
            if self._worker_view().since_progress_s < _STUCK_S:
                beat()

    def _worker_view(self) -> WorkerView:
        """The current reading. While ZooKeeper is unavailable it counts as idle, because a restart would not help."""
        observer, client = self.observer, self.client
        if observer is None or client is None or client.session.state is not SessionState.CONNECTED:
            return WorkerView()
        now = self._clock.monotonic()
        if observer.reading_since is None:
            return WorkerView()
        return WorkerView("Look", observer.images_read + 1, now - observer.reading_since, now - observer.progressed_at)

    # -- status ------------------------------------------------------------------------------------------------------

    def status_server(self) -> StatusServer:
        """Make the HTTP endpoint of this node."""
        sources = StatusSources(
            instance=self.identity.instance,
            queue=self._calls,
            snapshot=lambda: self.snapshot,
            worker=self._worker_view,
            channels=dict,
            session=self._session_view,
            audit=lambda: audit_view(self.audit, self.heads),
            now_ms=self._clock.now_ms,
            recent=self.recent,
            record=self.bus.record,
            observations=self._observations_view,
            cluster_settings=lambda: self.discovery.book.current,
            config=self.config.effective,
            compare=self._comparing.compare,
            turnstile=self._turnstile,
            meters=self.meters,
        )
        return StatusServer(sources, self.config.http, metrics=self.config.metrics)

    def _zookeeper(self) -> ZooKeeper:
        if self.client is None:
            raise StoreUnavailable("there is no session yet")
        return self.client.zk

    def _session_view(self) -> SessionView:
        if self.client is None:
            return SessionView("connecting")
        session = self.client.session
        return SessionView(session.state.value, session.session_id, session.generation)

    def _observations_view(self) -> ObservationsView:
        observer = self.observer
        report = observer.report if observer is not None else ObservationReport()
        return ObservationsView(
            looks=observer.images_read if observer is not None else 0,
            torn=observer.torn if observer is not None else 0,
            unsettled=observer.unsettled if observer is not None else 0,
            refusal=self._refusal,
            totals=report.totals,
            latest=[ComparedPartition(cause, *row[:4], verdict_text(row.verdict)) for cause, row in report.latest],
            not_judged=[kind.value for kind in UnexplainedKind],
            cannot_be_seen=CANNOT_BE_SEEN,
        )


@asynccontextmanager
async def open_observer(
    config: Config,
    identity: Identity,
    *,
    on_published: Callable[[ObservingNode], None] = lambda _node: None,
    beat: Callable[[ObservingNode], None] = lambda _node: None,
    beat_within_s: float | None = None,
) -> AsyncIterator[ObservingNode]:
    """Open an observing instance; leaving the block closes everything.

    ``beat_within_s`` is the longest time between two beats.

    :raises StoreUnavailable: ZooKeeper did not answer in time. :raises NoCluster: there is no cluster to observe.
    :raises OSError: an address cannot be bound.
    """
    node = ObservingNode(config, identity)
    node.beat_within_s = beat_within_s
    async with AsyncExitStack() as stack:
        status = node.status_server()
        node.renewals.append(status.listener.reload)
        node.http_port = await status.start()
        stack.push_async_callback(status.close)
        stack.push_async_callback(node.heads.finish)
        stack.push_async_callback(node.audit.close)
        client = await node.connect()
        stack.push_async_callback(client.close)
        await node.find_cluster(client)
        await node.audit.start(node.snapshot.cluster_id)
        await stack.enter_async_context(exporting(node.heads))
        node.bus.record(ConfigRecord(config.effective()))
        watching = node.watching(client, lambda: on_published(node), lambda: beat(node))
        await stack.enter_async_context(watching)
        await stack.enter_async_context(measuring_lag(node.meters))
        yield node
