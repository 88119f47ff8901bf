"""An instance that only watches: no election, no Kafka listener, no event loop, and a session that cannot write.

Around the observer are the same audit log and status endpoint as around a controller.
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
from controllerd.daemon.comparing import Comparing
from controllerd.daemon.discovering import Discovery
from controllerd.daemon.metering import measuring_lag
from controllerd.daemon.reloading import Renewal
from controllerd.daemon.settings_memory import SettingsFile
from controllerd.errors import NoCluster, RefusedToLead, StoreUnavailable
from controllerd.identity import Identity
from controllerd.observer.causes import Unseen
from controllerd.observer.dry_run_collaborators import WatchedConfiguration, watched_configuration
from controllerd.observer.mirror import Mirror
from controllerd.observer.observer import Observer
from controllerd.observer.report import CANNOT_BE_SEEN, ObservationReport, verdict_text
from controllerd.recent import Recent
from controllerd.record.records import ConfigRecord
from controllerd.services.settings_changes import write_down
from controllerd.slicer import Turnstile, prioritise_event_loop
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.metrics.meters import Meters
from controllerd.status.server import StatusServer
from controllerd.status.sources import Compared, ObservationsView, StatusSources
from controllerd.views import Role, SessionView, WorkerView
from controllerd.zk import paths
from controllerd.zk.access import Node, ZooKeeper
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

JUDGED_AGAIN_S: Final = 10.0
"""Seconds after which it is looked at again whether we would refuse to lead."""
_BEAT_S: Final = 2.0
_STUCK_S: Final = 30.0


class Sessions:
    """Receives the events of the ZooKeeper session, of which only its end and its successor matter here."""

    def __init__(self) -> None:
        self._ended, self._renewed = asyncio.Event(), asyncio.Event()

    def put(self, event: Event) -> None:
        """Something happened to the session."""
        if isinstance(event, RegisterBrokerAndReelect):
            self._renewed.set()

    def clear_and_put(self, event: Event) -> None:
        """Something ended the session."""
        if isinstance(event, Expire):
            self._ended.set()

    async def next(self, client: ReadOnlyClient) -> None:
        """After ``StoreUnavailable``: wait until there is another session, and let it be used."""
        await self._ended.wait()
        self._ended.clear()
        client.session.expire_handled()
        await self._renewed.wait()
        self._renewed.clear()


class ObservingNode:
    """One instance that watches, with everything it owns. Made by ``open_observer``."""

    def __init__(self, config: Config, identity: Identity) -> None:
        self.config, self.identity = config, identity
        self.snapshot = ClusterSnapshot(config.node.id)
        self.stop = asyncio.Event()
        """Set when the instance must end; ``stop_reason`` says why, and is empty for an orderly end."""
        self.stop_reason = ""
        self.has_audit_failed = False
        self.http_port = 0
        self.renewals: list[Renewal] = []
        """Secrets that are read anew when the daemon reloads."""
        self.beat_within_s: float | None = None
        self.observer: Observer | None = None
        """Known once the session is there."""
        self._clock = SystemClock()
        self.audit = AuditWriter(audit_settings(config), config.node.id, self._clock, on_resign=self._audit_failed)
        self.recent = Recent(self._clock)
        self.bus = RecordBus(self.audit, after=[self.recent])
        self.heads = HeadExporter(export_settings(config), self.audit, self._clock.now_ms)
        self._rejections = Rejections(self.bus)
        self.meters = Meters(self._clock.monotonic)
        self._calls = EventQueue(self._clock.monotonic)
        self._calls.close()  # nobody would take them
        self._sessions = Sessions()
        self.client: ReadOnlyClient | None = None
        self.discovery = Discovery(config, SettingsFile(config.node.data_dir), self.snapshot)
        self._mirror = Mirror(self.discovery.book.features, self.snapshot)
        self._on_published: Callable[[], None] = lambda: None
        self._refusal: str | None = None
        self._judged_at: float | None = None
        self._turnstile = Turnstile()
        self._comparing = Comparing(
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
        """The audit log cannot be written and the configuration says not to go on. Called in the writer's thread."""
        self.has_audit_failed = True
        self._running_loop.call_soon_threadsafe(self.end, f"the audit log cannot be written: {reason}")

    # -- watching ----------------------------------------------------------------------------------------------------

    async def connect(self) -> ReadOnlyClient:
        """Open the session. :raises StoreUnavailable: nobody answered in time."""
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
        """Learn which cluster it is, and recall its settings.

        :raises NoCluster: there is none. :raises BadZnode: its id makes no sense.
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
        """Watch until the block is left."""
        self._on_published = on_published
        self.observer = Observer(
            client.zk,
            self._configuration,
            self._clock,
            self.bus,
            interval_s=self.config.controller.observe_interval_ms / 1000,
            show=self._show,
            when_torn=self._note_torn,
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
            log.critical("a task that must not end failed", task=task.get_name(), exc_info=error)
            self.end(f"the task {task.get_name()} failed: {type(error).__name__}: {error}")

    async def _watch(self, observer: Observer, client: ReadOnlyClient) -> None:
        prioritise_event_loop()
        while True:
            try:
                await observer.run()
            except StoreUnavailable as gone:
                log.warning("zookeeper is out of reach, watching goes on when it is back", reason=str(gone))
                await observer.look_away()
                self.snapshot.reason = "ZooKeeper is out of reach: what is shown is what was seen last"
                await self._sessions.next(client)

    async def _show(self, picture: ClusterImage) -> None:
        """Publish the newest picture, and say what we are."""
        assert self.client is not None
        await self._judge_ourselves(self.client, picture)
        await self._mirror.show(picture)
        self.discovery.published()
        self.snapshot.role = Role.OBSERVER
        holder = self.snapshot.holder
        watched = f"watches {holder}" if holder is not None else "nobody holds the role"
        self.snapshot.reason = watched + (f"; would refuse to lead: {self._refusal}" if self._refusal else "")
        self._on_published()

    # -- settings ----------------------------------------------------------------------------------------------------

    async def _registered(self) -> Sequence[Broker]:
        """The brokers of the newest picture: nothing is read for them once more."""
        return list(self.snapshot.brokers.values())

    def _take_settings(self, event: BrokerSettingsReceived) -> None:
        """Take the answers of brokers at once: no event task decides anything here."""
        book = self.discovery.book
        before = book.current
        book.take(event.answers, event.registered)
        write_down(before, book.current, self.bus)
        if book.current.refusal != before.refusal:
            self._judged_at = None  # said with the next picture

    def _configuration(self) -> WatchedConfiguration:
        """Return the configuration of the controller that is watched, as far as it is known now."""
        listener = self.config.kafka.controller_listener_name
        registered = {broker.id: broker.epoch for broker in self.snapshot.brokers.values()}
        return watched_configuration(
            self.config.node.id, listener, self.snapshot.holder, self.discovery.book, registered
        )

    # -- showing -----------------------------------------------------------------------------------------------------

    def _note_torn(self) -> None:
        """Nothing newer can be shown. One torn look is rare; where each of them is, whoever asks must not be misled."""
        self.snapshot.reason = "brokers or the controller change during each look: what is shown is what was seen last"

    async def _judge_ourselves(self, client: ReadOnlyClient, picture: ClusterImage) -> None:
        """Whether we would refuse to lead this cluster; asked less often than the cluster is looked at."""
        now = self._clock.monotonic()
        if self._judged_at is not None and now - self._judged_at < JUDGED_AGAIN_S:
            return
        self._judged_at = now
        refusal = await self._find_refusal(client, picture.nodes.get(paths.CONTROLLER))
        if refusal is not None and refusal != self._refusal:
            log.warning("would refuse to lead", reason=refusal)
        self._refusal = refusal

    async def _find_refusal(self, client: ReadOnlyClient, controller: Node | None) -> str | None:
        """Why we would refuse to lead, by what ZooKeeper and then by what brokers say; None if we would not."""
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
        """The look that is under way. Waiting for ZooKeeper is no fault of ours: a restart would not bring it back."""
        observer, client = self.observer, self.client
        if observer is None or client is None or client.session.state is not SessionState.CONNECTED:
            return WorkerView()
        now = self._clock.monotonic()
        if observer.looking_since is None:
            return WorkerView()
        return WorkerView("Look", observer.looks + 1, now - observer.looking_since, now - observer.progressed_at)

    # -- status ------------------------------------------------------------------------------------------------------

    def status_server(self) -> StatusServer:
        """The HTTP endpoint over this node."""
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
            looks=observer.looks if observer is not None else 0,
            torn=observer.torn if observer is not None else 0,
            unsettled=observer.unsettled if observer is not None else 0,
            refusal=self._refusal,
            totals=report.totals,
            latest=[Compared(cause, *row[:4], verdict_text(row.verdict)) for cause, row in report.latest],
            not_judged=[kind.value for kind in Unseen],
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
    """An instance that watches; leaving the block closes everything.

    ``beat_within_s``: somebody wants a beat at least that often.

    :raises StoreUnavailable: ZooKeeper did not answer in time. :raises NoCluster: there is nothing to watch.
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
