"""Reading without a daemon: ZooKeeper is looked at from this very process, through the daemon's own read API.

A thread takes picture after picture and serves them on a unix socket of its own, so that every command, filter and
format is the same whether a daemon runs or not. Nothing is written, nothing is watched, and no role is contended for.
"""

import asyncio
import atexit
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import web

from cli.exit_codes import CliError, ExitCode
from cli.output import note
from cli.pictured import PicturedSettings
from controllerd.clock import SystemClock
from controllerd.config.model import HttpConfig
from controllerd.core.model import Features
from controllerd.errors import BadZnode, StoreUnavailable
from controllerd.observer.mirror import Mirror
from controllerd.recent import Recent
from controllerd.record.records import Record
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView, StatusSources
from controllerd.views import Role, SessionView, WorkerView
from controllerd.zk.client import ReadOnlyClient, open_read_only
from controllerd.zk.pictures import Picture, take_picture
from controllerd.zk.read_only import read_cluster_id
from events.base import Event
from events.queue import EventQueue

SESSION_MS: Final = 10_000
NOBODY: Final = -1
"""The node id of whoever only looks."""
_LOOK_EVERY_S: Final = 2.0
_TELL_EVERY_S: Final = 2.0
_END_S: Final = 3.0


@cache
def address_over(hosts: str, timeout_s: float) -> str:
    """Where the cluster of these ZooKeeper servers can be asked for; one reader for the life of the process.

    :raises CliError: ZooKeeper does not answer, or there is no cluster in it.
    """
    reader = _Reader(hosts, timeout_s)
    reader.start()
    atexit.register(reader.close)
    reader.wait()
    return f"unix://{reader.socket}"


class NoAudit:
    """Nothing is done, so nothing is written down."""

    def record(self, *_records: Record) -> None:
        """Nowhere."""

    async def accepted(self) -> None:
        """At once."""


class NoEvents:
    """Nobody handles what the session tells."""

    def put(self, event: Event) -> None:
        """Nowhere."""

    def clear_and_put(self, event: Event) -> None:
        """Nowhere."""


class _Reader(threading.Thread):
    def __init__(self, hosts: str, timeout_s: float) -> None:
        super().__init__(name="zookeeper reader", daemon=True)
        self._hosts, self._timeout_s = hosts, timeout_s
        self._folder = Path(tempfile.mkdtemp(prefix="controllerctl-"))
        self.socket: Final = self._folder / "read.sock"
        self._failure: CliError | None = None
        self._is_settled = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def wait(self) -> None:
        """Until the first picture is there. :raises CliError: it will not come, or not in time."""
        began = time.monotonic()
        while not self._is_settled.wait(_TELL_EVERY_S):
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
        """End the session, so that the server need not wait for its time-out."""
        if self._loop is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self.join(_END_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self) -> None:
        """The thread."""
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
            snapshot = ClusterSnapshot(NOBODY, cluster_id)
            looking = _Looking(client, snapshot)
            await looking.look()
            async with _serving(looking.sources(), self.socket):
                self._is_settled.set()
                await self._go_on(looking)

    async def _go_on(self, looking: "_Looking") -> None:
        """Later pictures are for a watch, and for whoever takes their time."""
        while not self._ending.is_set():
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._ending.wait()
            except TimeoutError:
                await looking.look()


class _Looking:
    """Takes pictures, and shows the newest of them."""

    def __init__(self, client: ReadOnlyClient, snapshot: ClusterSnapshot) -> None:
        self._client, self._snapshot = client, snapshot
        self._mirror = Mirror(Features(), snapshot)
        self._settings = PicturedSettings()
        self._last: Picture | None = None

    async def look(self) -> None:
        """Show the cluster as it is now. :raises StoreUnavailable: the session is lost."""
        self._last = picture = await take_picture(self._client.zk, self._last)
        self._settings.take(picture)
        await self._mirror.show(picture)
        self._snapshot.role = Role.OBSERVER
        torn = "; the cluster changed while it was read" if picture.is_torn else ""
        self._snapshot.reason = f"no daemon was asked: this is what ZooKeeper says{torn}"

    def sources(self) -> StatusSources:
        """What the read API may ask: everything that a daemon has beyond the picture is empty."""
        clock = SystemClock()
        queue = EventQueue(clock.monotonic)
        queue.close()  # nobody would take them
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
            recent=Recent(NoAudit(), clock),
            settings=self._settings,
        )


@asynccontextmanager
async def opened(hosts: str, timeout_s: float) -> AsyncIterator[ReadOnlyClient]:
    """A session that cannot write. :raises StoreUnavailable: nobody answered in time."""
    # What kazoo says of each attempt would hide the one sentence in which it ends.
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
    """The read API on a socket that nobody else can open: its folder is ours alone."""
    application = StatusServer(sources, HttpConfig(), environment={}).application()
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.UnixSite(runner, socket).start()
        yield
    finally:
        await runner.cleanup()
