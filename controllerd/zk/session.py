"""The ZooKeeper session: kazoo's threads on one side, the event loop on the other, and what a lost session means.

kazoo opens a new session by itself after the old one expired. Nothing of it is used before the loop has handled
``Expire``: every operation raises ``StoreUnavailable`` until then. Each session that is used counts as a generation.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

import structlog
from kazoo.exceptions import AuthFailedError, ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import OPEN_ACL_UNSAFE

from controllerd.errors import ControllerdError, StoreUnavailable
from controllerd.ports.audit import AuditLog
from controllerd.record.records import SessionRecord
from controllerd.zk.driver import THREADED, Kazoo, KazooDriver, hop
from events.base import Event
from events.cluster import Expire, RegisterBrokerAndReelect, Resync

log = structlog.get_logger(__name__)

_CLOSE_TIMEOUT_S: Final = 0.5
_NEW_CLIENT_AFTER_S: Final = 2.0
_GIVEN_UP: Final = frozenset({KeeperState.AUTH_FAILED, KeeperState.CLOSED})


class SessionState(Enum):
    """What the session is good for."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is broken, the session may still live: operations wait."""
    LOST = "lost"
    """The session is over, or has been out of reach for as long as it lives: every operation fails."""
    CLOSED = "closed"


class EventSink(Protocol):
    """The queue, as far as the session needs it."""

    def put(self, event: Event) -> None:
        """Append."""
        ...

    def clear_and_put(self, event: Event) -> None:
        """Preempt everything, then append."""
        ...


class Timings(Protocol):
    """Takes how long ZooKeeper needs, such as the metrics. Called in the event loop; must not block."""

    def on_answer(self, op: str, took_s: float) -> None:
        """A request of this kind was answered, or it is known that it will not be."""
        ...

    def on_commit(self, operations: int) -> None:
        """A transaction of so many operations is about to be sent."""
        ...


class Untimed:
    """Timings for a session that nothing measures."""

    def on_answer(self, op: str, took_s: float) -> None:
        """Do nothing."""

    def on_commit(self, operations: int) -> None:
        """Do nothing."""


UNTIMED: Final = Untimed()


class ConnectionBroken(ControllerdError):
    """The answer to a request got lost with the connection."""


class _Answer:
    """What kazoo puts the answer into: it resolves a future of the loop, without kazoo's completion thread."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._future = future

    def set(self, value: object = None) -> None:
        """kazoo has the answer (called in its thread)."""
        hop(self._loop, _resolve, self._future, value)

    def set_exception(self, error: Exception) -> None:
        """The request failed (called in kazoo's thread, or at once in ours)."""
        hop(self._loop, _fail, self._future, error)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class ZooKeeperSession:
    """One KazooClient for the life of the daemon. All methods belong to the loop's thread."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        queue: EventSink,
        audit: AuditLog,
        *,
        kazoo: KazooDriver = THREADED,
        timings: Timings = UNTIMED,
    ) -> None:
        """``hosts`` is ``zookeeper.connect``: ``host:port`` of several servers, then perhaps a chroot."""
        self.timings: Final = timings
        self._hosts = hosts
        self._timeout_s = session_timeout_ms / 1000
        """The requested session time-out."""
        self._queue = queue
        self._audit = audit
        self._state = SessionState.CONNECTING
        self._generation = 0
        self._session_id = 0
        self._link_is_up = False
        self._expire_is_handled = True
        self._settled = asyncio.Event()
        self._pending: set[asyncio.Future[Any]] = set()
        self._lost_listeners: list[Callable[[], None]] = []
        self._timeout_listeners: list[Callable[[float], None]] = []
        self._give_up: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._kazoo = kazoo
        self._endings: set[asyncio.Task[None]] = set()
        self._client = self._new_client()

    @property
    def state(self) -> SessionState:
        """What the session is good for."""
        return self._state

    @property
    def generation(self) -> int:
        """Counts the sessions that were used, from 1; 0 before the first."""
        return self._generation

    @property
    def session_id(self) -> int:
        """The id of the present session, as ``ephemeralOwner`` shows it."""
        return self._session_id

    @property
    def client(self) -> Kazoo:
        """kazoo's client, for the requests in this package."""
        return self._client

    @property
    def chroot(self) -> str:
        """The prefix of all paths, empty or beginning with a slash."""
        return self._client.chroot

    @property
    def timeout_s(self) -> float:
        """The session time-out in seconds: granted by the server with the last connection, else the requested one.

        ZooKeeper uses the granted one, which may be longer or shorter, and may change with every
        connection.
        """
        granted_s = self._client.negotiated_timeout_s
        return self._timeout_s if granted_s is None else granted_s

    def when_timeout_is_granted(self, listener: Callable[[float], None]) -> None:
        """Call ``listener`` with ``timeout_s`` now, and at every connection before its first request."""
        self._timeout_listeners.append(listener)
        listener(self.timeout_s)

    def when_lost(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` in the very tick in which the session is found lost, before ``Expire`` is enqueued."""
        self._lost_listeners.append(listener)

    async def open(self, timeout_s: float | None = None, *, create_chroot: bool = True) -> None:
        """Connect, for the first time, and create the chroot if it is missing, unless that is not wanted.

        :raises StoreUnavailable: no server answered within ``timeout_s``; without one it goes on trying.
        """
        self._client.start_async()
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError as error:
            await self.close()
            raise StoreUnavailable(f"no ZooKeeper server of {self._hosts} answered in {timeout_s} s") from error
        if create_chroot:
            await self._ensure_chroot()

    async def close(self) -> None:
        """End the session: its ephemeral znodes go at once."""
        if self._state is SessionState.CLOSED:
            return
        self._enter(SessionState.CLOSED)
        self._fail_pending("the session is closed")
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._kazoo.end(self._client)
        except TimeoutError:
            log.warning("zookeeper connection does not close in time", timeout_s=_CLOSE_TIMEOUT_S)

    def declare_lost(self, reason: str) -> None:
        """Treat the session as lost, though kazoo has not said so: out of reach, or the process itself was suspended.

        Calls the listeners and enqueues ``Expire`` at once. If the session turns out to live, it is used again after
        ``expire_handled``, as a new generation.
        """
        if self._state not in {SessionState.CONNECTED, SessionState.SUSPENDED}:
            return
        self._enter(SessionState.LOST)
        log.warning("zookeeper session lost", reason=reason, generation=self._generation)
        for listener in self._lost_listeners:
            listener()
        self._fail_pending(f"the ZooKeeper session is lost: {reason}")
        self._look_later()
        self._expire_is_handled = False
        self._queue.clear_and_put(Expire(self._generation))

    def expire_handled(self) -> None:
        """The loop has handled ``Expire``: ``RegisterBrokerAndReelect`` follows as soon as a new session is there."""
        self._expire_is_handled = True
        self._begin_generation_if_possible()

    async def ask(self, request: object) -> Any:
        """Send a request of kazoo's protocol, once, and wait for the answer.

        :raises ConnectionBroken: it may have been carried out, the answer got lost.
        :raises StoreUnavailable: the session is lost.
        """
        await self.until_connected()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._pending.add(future)
        began = self._loop.time()
        try:
            self._client._call(request, _Answer(self._loop, future))  # noqa: SLF001  # kazoo has no public way in
            return await future
        except ConnectionLoss as error:
            raise ConnectionBroken from error
        except (SessionExpiredError, AuthFailedError) as error:
            raise StoreUnavailable(f"the ZooKeeper session is over: {type(error).__name__}") from error
        finally:
            self._pending.discard(future)
            self.timings.on_answer(type(request).__name__, self._loop.time() - began)

    async def until_connected(self) -> None:
        """Wait while the session is suspended, at most for the session time-out.

        :raises StoreUnavailable: the session is lost.
        """
        await self._settled.wait()
        if self._state is not SessionState.CONNECTED:
            raise StoreUnavailable(f"the ZooKeeper session is {self._state.value}")

    async def _ensure_chroot(self) -> None:
        names = self.chroot.split("/")[1:]
        for depth in range(len(names)):
            path = "/" + "/".join(names[: depth + 1])
            try:
                await self.ask(CreateRequest(path, b"", OPEN_ACL_UNSAFE, 0))
            except NodeExistsError:
                continue

    def _new_client(self) -> Kazoo:
        client = self._kazoo.make(self._hosts, self._timeout_s)
        client.add_listener(partial(self._from_kazoo, client))
        return client

    def _from_kazoo(self, client: Kazoo, state: str) -> None:
        """Runs in kazoo's thread: hop, and nothing else."""
        hop(self._loop, self._changed, client, state, client._session_id)  # noqa: SLF001  # client_id is None when lost

    def _changed(self, client: Kazoo, state: str, session_id: int | None) -> None:
        if client is not self._client:
            return
        self._link_is_up = state == KazooState.CONNECTED
        if self._state is SessionState.CLOSED:
            return
        if state == KazooState.LOST:
            self.declare_lost("expired")
        elif state == KazooState.SUSPENDED:
            self._suspend()
        else:
            for listener in self._timeout_listeners:
                listener(self.timeout_s)
            self._connected(session_id or 0)

    def _look_after_client(self) -> None:
        """kazoo gives up for good after a failed authentication, whatever becomes of its cause (KAFKA-7987).

        It does not even tell when that happens before the first connection, so we look.
        """
        self._look = None
        if self._state is not SessionState.LOST:
            return
        if self._client.client_state in _GIVEN_UP:
            log.error("zookeeper client gave up, trying another", state=self._client.client_state)
            self._replace_client()
        self._look_later()

    def _look_later(self) -> None:
        if self._look is None:
            self._look = self._loop.call_later(_NEW_CLIENT_AFTER_S, self._look_after_client)

    def _replace_client(self) -> None:
        ending = self._loop.create_task(self._kazoo.end(self._client))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        self._client = self._new_client()
        self._client.start_async()

    def _suspend(self) -> None:
        if self._state is SessionState.CONNECTED:
            self._enter(SessionState.SUSPENDED)
            self._give_up = self._loop.call_later(
                self.timeout_s, self.declare_lost, "out of reach for a session time-out"
            )

    def _connected(self, session_id: int) -> None:
        if self._state is SessionState.LOST:
            self._session_id = session_id
            self._begin_generation_if_possible()
        elif self._state is SessionState.CONNECTING:
            self._session_id = session_id
            self._generation = 1
            self._enter(SessionState.CONNECTED)
        elif self._state is SessionState.SUSPENDED:
            self._enter(SessionState.CONNECTED, record="reconnected")
            self._queue.put(Resync())

    def _begin_generation_if_possible(self) -> None:
        if self._state is SessionState.LOST and self._link_is_up and self._expire_is_handled:
            self._generation += 1
            self._enter(SessionState.CONNECTED)
            self._queue.put(RegisterBrokerAndReelect())

    def _fail_pending(self, reason: str) -> None:
        for future in list(self._pending):
            _fail(future, StoreUnavailable(reason))

    def _enter(self, state: SessionState, *, record: str = "") -> None:
        self._state = state
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        if state is SessionState.SUSPENDED:
            self._settled.clear()
        else:
            self._settled.set()
        self._audit.record(SessionRecord(record or state.value, self._session_id, self._generation))
