"""The ZooKeeper session: kazoo's threads on one side, the event loop on the other, and the rules for its end.

**A lost session.** kazoo opens a new session by itself after the old one expired. It must not be
used at once: what the controller knows was read in the old session, whose watches and whose
``/controller`` are gone, and another controller may lead. So each session that is used counts as a
generation, and between two generations this order holds:

1. ``declare_lost`` calls its listeners in the same tick, which stops the senders: no request leaves
   any more. Every request to ZooKeeper that has no answer fails, and ``Expire`` takes the place of
   all queued events.
2. Until the loop has handled ``Expire``, every operation raises ``StoreUnavailable``, even if kazoo
   is connected again. Otherwise a handler that began in the old session could write in the new one
   what it decided on old reads.
3. After that, the next generation begins with the connection, and its first event is
   ``RegisterBrokerAndReelect``.

**A broken connection** is not a lost session: operations wait, and after a reconnect in time
``Resync`` reads anew what watches cover (``watches``). But a server reports the end of a session
only to a client that reaches it. A controller that is cut off would go on sending requests while
its successor leads. So the session counts as lost after a session time-out without a connection. (A
frozen process notices neither the broken connection nor the passed time-out: see
``daemon.freeze_guard``.)

**A lost reply.** If the connection breaks, requests without an answer may or may not have been
carried out (``ConnectionBroken``). Reads are sent again. A transaction never is: ``writer`` and
``elector`` read its effect back.
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
    """The state of the session, which decides whether operations are sent, wait or fail."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is broken, and the session may still be alive: operations wait."""
    LOST = "lost"
    """The session has expired, or was out of reach for a whole session time-out: every operation fails."""
    CLOSED = "closed"


class EventSink(Protocol):
    """The part of the event queue that the session uses."""

    def put(self, event: Event) -> None:
        """Append an event."""
        ...

    def clear_and_put(self, event: Event) -> None:
        """Preempt all queued events, then append this one."""
        ...


class Timings(Protocol):
    """Takes the durations of requests, for metrics. Its methods are called in the event loop and must not block."""

    def on_answer(self, op: str, took_s: float) -> None:
        """Take the seconds until a request of this kind was answered, or until it was known that no answer comes."""
        ...

    def on_commit(self, operations: int) -> None:
        """Take the number of operations of a transaction that is about to be sent."""
        ...


class Untimed:
    """Ignores the durations of requests."""

    def on_answer(self, op: str, took_s: float) -> None:
        """Do nothing."""

    def on_commit(self, operations: int) -> None:
        """Do nothing."""


UNTIMED: Final = Untimed()


class ConnectionBroken(ControllerdError):
    """The connection broke before the answer to a request came."""


class _PendingReply:
    """Resolves a future of the event loop with the answer to a request, without kazoo's completion thread."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._future = future

    def set(self, value: object = None) -> None:
        """Resolve the future (called in kazoo's thread)."""
        hop(self._loop, _resolve, self._future, value)

    def set_exception(self, error: Exception) -> None:
        """Fail the future (called in kazoo's thread, or at once in the loop's)."""
        hop(self._loop, _fail, self._future, error)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class ZooKeeperSession:
    """The daemon's ZooKeeper sessions: one at a time, each the successor of the one before.

    All methods belong to the loop's thread.
    """

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
        """``hosts`` is ``zookeeper.connect``: ``host:port`` of one or more servers, and optionally a chroot."""
        self.timings: Final = timings
        self._hosts = hosts
        self._timeout_s = session_timeout_ms / 1000
        """The requested session time-out."""
        self._queue = queue
        self._audit = audit
        self._state = SessionState.CONNECTING
        self._generation = 0
        self._session_id = 0
        self._is_connected = False
        self._expire_is_handled = True
        self._settled = asyncio.Event()
        """Set unless operations have to wait, in the states CONNECTING and SUSPENDED."""
        self._pending: set[asyncio.Future[Any]] = set()
        self._lost_listeners: list[Callable[[], None]] = []
        self._timeout_listeners: list[Callable[[float], None]] = []
        self._lost_timer: asyncio.TimerHandle | None = None
        self._client_check: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._kazoo = kazoo
        self._ending_clients: set[asyncio.Task[None]] = set()
        self._client = self._new_client()

    @property
    def state(self) -> SessionState:
        """The state of the session."""
        return self._state

    @property
    def generation(self) -> int:
        """The number of the session among those that were used, from 1; 0 before the first."""
        return self._generation

    @property
    def session_id(self) -> int:
        """The id of the present session, as ``ephemeralOwner`` shows it."""
        return self._session_id

    @property
    def client(self) -> Kazoo:
        """The client of kazoo, for the requests in this package."""
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
        """Connect for the first time, and create the chroot if it is missing and ``create_chroot`` is set.

        :raises StoreUnavailable: no server answered within ``timeout_s``; without it the attempts never end.
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
        """End the session, so that ZooKeeper deletes its ephemeral znodes at once."""
        if self._state is SessionState.CLOSED:
            return
        self._enter(SessionState.CLOSED)
        self._fail_pending("the session is closed")
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._kazoo.end(self._client)
        except TimeoutError:
            log.warning("zookeeper connection did not close in time", timeout_s=_CLOSE_TIMEOUT_S)

    def declare_lost(self, reason: str) -> None:
        """Treat the session as lost, whether or not kazoo has reported it.

        Calls the listeners and enqueues ``Expire`` at once. If ZooKeeper still has the session, it is used again after
        ``expire_handled``, as a new generation.
        """
        if self._state not in {SessionState.CONNECTED, SessionState.SUSPENDED}:
            return
        self._enter(SessionState.LOST)
        log.warning("zookeeper session lost", reason=reason, generation=self._generation)
        for listener in self._lost_listeners:
            listener()
        self._fail_pending(f"the ZooKeeper session is lost: {reason}")
        self._check_client_later()
        self._expire_is_handled = False
        self._queue.clear_and_put(Expire(self._generation))

    def expire_handled(self) -> None:
        """Note that the loop has handled ``Expire``: the next generation begins as soon as kazoo is connected."""
        self._expire_is_handled = True
        self._begin_generation_if_possible()

    async def ask(self, request: object) -> Any:
        """Send a request of kazoo's protocol once, and wait for the answer.

        :raises ConnectionBroken: the answer was lost; the request may have been carried out.
        :raises StoreUnavailable: the session is lost.
        """
        await self.until_connected()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._pending.add(future)
        began = self._loop.time()
        try:
            self._client._call(request, _PendingReply(self._loop, future))  # noqa: SLF001  # kazoo has no public way in
            return await future
        except ConnectionLoss as error:
            raise ConnectionBroken from error
        except (SessionExpiredError, AuthFailedError) as error:
            raise StoreUnavailable(f"ZooKeeper session lost: {type(error).__name__}") from error
        finally:
            self._pending.discard(future)
            self.timings.on_answer(type(request).__name__, self._loop.time() - began)

    async def until_connected(self) -> None:
        """Wait while the session is suspended, which is at most the session time-out.

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
        """Hand a change of the state over to the loop's thread (called in kazoo's thread)."""
        hop(self._loop, self._on_state, client, state, client._session_id)  # noqa: SLF001  # client_id is None when lost

    def _on_state(self, client: Kazoo, state: str, session_id: int | None) -> None:
        if client is not self._client:
            return
        self._is_connected = state == KazooState.CONNECTED
        if self._state is SessionState.CLOSED:
            return
        if state == KazooState.LOST:
            self.declare_lost("expired")
        elif state == KazooState.SUSPENDED:
            self._suspend()
        else:
            for listener in self._timeout_listeners:
                listener(self.timeout_s)
            self._on_connected(session_id or 0)

    def _check_client(self) -> None:
        """Replace kazoo's client if it has given up.

        It gives up for good after a failed authentication, even if the cause is removed (KAFKA-7987), and does not
        report it if there was no connection before. So its state is read at intervals.
        """
        self._client_check = None
        if self._state is not SessionState.LOST:
            return
        if self._client.client_state in _GIVEN_UP:
            log.error("zookeeper client gave up and is replaced", state=self._client.client_state)
            self._replace_client()
        self._check_client_later()

    def _check_client_later(self) -> None:
        if self._client_check is None:
            self._client_check = self._loop.call_later(_NEW_CLIENT_AFTER_S, self._check_client)

    def _replace_client(self) -> None:
        ending = self._loop.create_task(self._kazoo.end(self._client))
        self._ending_clients.add(ending)
        ending.add_done_callback(self._ending_clients.discard)
        self._client = self._new_client()
        self._client.start_async()

    def _suspend(self) -> None:
        if self._state is SessionState.CONNECTED:
            self._enter(SessionState.SUSPENDED)
            self._lost_timer = self._loop.call_later(
                self.timeout_s, self.declare_lost, "out of reach for a session time-out"
            )

    def _on_connected(self, session_id: int) -> None:
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
        if self._state is SessionState.LOST and self._is_connected and self._expire_is_handled:
            self._generation += 1
            self._enter(SessionState.CONNECTED)
            self._queue.put(RegisterBrokerAndReelect())

    def _fail_pending(self, reason: str) -> None:
        for future in list(self._pending):
            _fail(future, StoreUnavailable(reason))

    def _enter(self, state: SessionState, *, record: str = "") -> None:
        self._state = state
        if self._lost_timer is not None:
            self._lost_timer.cancel()
            self._lost_timer = None
        if state is SessionState.SUSPENDED:
            self._settled.clear()
        else:
            self._settled.set()
        self._audit.record(SessionRecord(record or state.value, self._session_id, self._generation))
