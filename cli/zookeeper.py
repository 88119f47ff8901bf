"""Reading without a daemon: this process reads ZooKeeper itself, and answers through the daemon's own read API.

A thread reads one image after the other and serves the newest on a unix socket of its own, so that every command,
filter and format is the same with and without a daemon. The process writes nothing, sets no watch and contends for no
role.
"""

import asyncio
import atexit
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import web

from cli.exit_codes import CliError, ExitCode
from cli.output import note
from controllerd.clock import SystemClock
from controllerd.config.model import HttpConfig
from controllerd.core.cluster_settings import Policy
from controllerd.core.model import Features
from controllerd.errors import BadZnode, StoreUnavailable
from controllerd.observer.mirror import Mirror
from controllerd.recent import Recent
from controllerd.record.records import Record
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView, StatusSources
from controllerd.views import Role, SessionView, WorkerView
from controllerd.zk import codecs, paths
from controllerd.zk.client import ReadOnlyClient, open_read_only
from controllerd.zk.image import ClusterImage, read_image
from controllerd.zk.read_only import read_cluster_id
from events.base import Event
from events.queue import EventQueue

_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"


class ImageSettings:
    """Settings of topics from an image of ZooKeeper; the brokers' own files are not known here."""

    def __init__(self) -> None:
        self.version = 0
        self.policy = Policy()
        self._image = ClusterImage({}, {})

    def take(self, image: ClusterImage) -> None:
        """Read settings from this image from now on."""
        self._image = image
        self.version += 1

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the configs that ``/config/topics`` overrides for these topics."""
        return {topic: self._config(paths.topic_config(topic)) for topic in topics}

    def unclean_by_default(self) -> bool | None:
        """Return the cluster's dynamic default; None without one."""
        value = self._config(paths.CONFIG_BROKER_DEFAULTS).get(_UNCLEAN)
        return None if value is None else value == "true"

    async def min_isr_by_default(self) -> int | None:
        """The cluster's dynamic default; None without one."""
        value = self._config(paths.CONFIG_BROKER_DEFAULTS).get(_MIN_ISR, "")
        return int(value) if value.isascii() and value.isdigit() else None

    def _config(self, path: str) -> Mapping[str, str]:
        node = self._image.nodes.get(path)
        try:
            return codecs.decode_config(path, node.data) if node is not None else {}
        except BadZnode:
            return {}


SESSION_MS: Final = 10_000
READER_NODE_ID: Final = -1
"""The node id of a process that only reads."""
_LOOK_EVERY_S: Final = 2.0
_REPORT_EVERY_S: Final = 2.0
_END_S: Final = 3.0


@cache
def address_over(hosts: str, timeout_s: float) -> str:
    """Return the address that answers for the cluster of these ZooKeeper servers; one reader per process.

    :raises CliError: ZooKeeper does not answer, or there is no cluster in it.
    """
    reader = _ZooKeeperReader(hosts, timeout_s)
    reader.start()
    atexit.register(reader.close)
    reader.wait()
    return f"unix://{reader.socket}"


class NoAudit:
    """An audit log that drops records: this process makes no change."""

    def record(self, *_records: Record) -> None:
        """Drop it."""

    async def accepted(self) -> None:
        """Return at once."""


class NoEvents:
    """An event queue that drops the events of the session."""

    def put(self, event: Event) -> None:
        """Drop it."""

    def clear_and_put(self, event: Event) -> None:
        """Drop it."""


class _ZooKeeperReader(threading.Thread):
    def __init__(self, hosts: str, timeout_s: float) -> None:
        super().__init__(name="zookeeper reader", daemon=True)
        self._hosts, self._timeout_s = hosts, timeout_s
        self._folder = Path(tempfile.mkdtemp(prefix="controllerctl-"))
        self.socket: Final = self._folder / "read.sock"
        self._failure: CliError | None = None
        self._is_settled = threading.Event()
        """Set when the first image is served, or when the reader has failed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def wait(self) -> None:
        """Wait for the first image. :raises CliError: ZooKeeper could not be read, or not in time."""
        began = time.monotonic()
        while not self._is_settled.wait(_REPORT_EVERY_S):
            passed = time.monotonic() - began
            note(f"reading ZooKeeper at {self._hosts}: {passed:.0f} s")
            if passed > self._timeout_s:
                message = (
                    f"ZooKeeper at {self._hosts} was not read within {self._timeout_s:g} s; --timeout waits longer"
                )
                raise CliError(ExitCode.TIMED_OUT, message)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the session, so that the server does not wait for its timeout."""
        if self._loop is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self.join(_END_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self) -> None:
        """Run the thread."""
        try:
            asyncio.run(self._read())
        except StoreUnavailable as error:
            self._fail(ExitCode.UNREACHABLE, f"{error}; name other servers with --zk HOSTS")
        except ValueError as error:
            self._fail(ExitCode.USAGE, f"--zk must be like zk1:2181,zk2:2181/chroot, not {self._hosts!r}: {error}")
        except BadZnode as error:
            self._fail(ExitCode.UNREACHABLE, f"{error}; is this the ZooKeeper of a Kafka cluster?")
        finally:
            self._is_settled.set()

    def _fail(self, code: ExitCode, message: str) -> None:
        self._failure = CliError(code, message)

    async def _read(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with opened(self._hosts, self._timeout_s) as client:
            cluster_id = await read_cluster_id(client.zk)
            if cluster_id is None:
                self._fail(
                    ExitCode.NOT_FOUND,
                    f"no broker was ever started at {self._hosts}: check its chroot (host:2181/kafka)",
                )
                return
            snapshot = ClusterSnapshot(READER_NODE_ID, cluster_id)
            reader = _ImageReader(client, snapshot)
            await reader.read()
            async with _serving(reader.sources(), self.socket):
                self._is_settled.set()
                await self._read_until_end(reader)

    async def _read_until_end(self, reader: "_ImageReader") -> None:
        """Read every few seconds, for a watch and for commands that take long."""
        while not self._ending.is_set():
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._ending.wait()
            except TimeoutError:
                await reader.read()


class _ImageReader:
    """Read images of ZooKeeper, and publish the newest."""

    def __init__(self, client: ReadOnlyClient, snapshot: ClusterSnapshot) -> None:
        self._client, self._snapshot = client, snapshot
        self._mirror = Mirror(Features(), snapshot)
        self._settings = ImageSettings()
        self._last: ClusterImage | None = None

    async def read(self) -> None:
        """Publish the current state of the cluster. :raises StoreUnavailable: the session is lost."""
        self._last = image = await read_image(self._client.zk, self._last)
        self._settings.take(image)
        await self._mirror.show(image)
        self._snapshot.role = Role.OBSERVER
        torn = "; the cluster changed while it was read" if image.is_torn else ""
        self._snapshot.reason = f"no daemon was asked: this is the state in ZooKeeper{torn}"

    def sources(self) -> StatusSources:
        """Return the sources of the read API; everything that only a daemon has is empty."""
        clock = SystemClock()
        queue = EventQueue(clock.monotonic)
        queue.close()  # no event task would take its events
        session = self._client.session
        return StatusSources(
            instance="controllerctl",
            queue=queue,
            snapshot=lambda: self._snapshot,
            worker=WorkerView,
            channels=dict,
            session=lambda: SessionView(session.state.value, session.session_id, session.generation),
            audit=AuditView,
            now_ms=clock.now_ms,
            recent=Recent(clock),
            record=NoAudit().record,
            settings=self._settings,
        )


@asynccontextmanager
async def opened(hosts: str, timeout_s: float) -> AsyncIterator[ReadOnlyClient]:
    """Open a session that cannot write. :raises StoreUnavailable: no server answered in time."""
    # kazoo logs every attempt, which would hide the one sentence of the result.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    client = await open_read_only(
        hosts, session_timeout_ms=SESSION_MS, queue=NoEvents(), audit=NoAudit(), connect_timeout_s=timeout_s
    )
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def _serving(sources: StatusSources, socket: Path) -> AsyncIterator[None]:
    """Serve the read API on a socket in a folder that only this user can open."""
    application = StatusServer(sources, HttpConfig(), environment={}).application()
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.UnixSite(runner, socket).start()
        yield
    finally:
        await runner.cleanup()
