"""A stand-in for kazoo's client over the simulated ZooKeeper: the same states, bytes and order, and faults on demand.

``SimKazoo(server, owner)`` is a ``KazooDriver``: give it to ``open_store`` or ``ZooKeeperSession`` of one simulated
process. ``driver.client`` is the latest ``SimKazooClient`` that it made, on which faults are called::

    client.cut(for_s=3.0)                    # both directions; the client is notified at once
    client.cut(for_s=3.0, silent=True)       # no notification: unanswered pings end it, after about 2/3 of the time-out
    client.lose_reply(of=MULTI, skip=1)      # the second multi from now is committed, then the connection breaks
    client.lose_request(of=MULTI)            # the next multi never reaches the server
    client.delay_s = (0.001, 0.5)            # each way, for all later messages
    client.watch_lag_s = 0.3                 # kazoo hands watches to another thread: they may come after later answers
    client.replica = server.follower((0.0, 2.0))   # the server of the next connection; ``cut()`` forces one

Opcodes are in ``tests.sim.zk_wire``; None matches every request. The client copies kazoo 2.11: the states and their
order (pending requests fail, then SUSPENDED is notified, then watchers are dropped and called with NONE; when expired,
LOST is notified first), requests queued while connecting, expiry discovered at the next connection only, a new session
opened by itself, watchers registered with the answer, back-off between attempts, a ping every third of the time-out. A
frozen owner neither pings nor reads; messages that had arrived are read after it was thawed, up to 50 ms late, because
the thread of kazoo is not the thread of the loop.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from struct import Struct
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.protocol.serialization import CloseInstance, Exists
from kazoo.protocol.states import KazooState, KeeperState

from controllerd.zk.driver import Kazoo, ReplyTarget
from tests.sim import zk_wire as wire
from tests.sim.loop import VirtualLoop
from tests.sim.zk_connection import Connection
from tests.sim.zk_link import Inbox, RequestFault, fault_for
from tests.sim.zk_server import Replica, SimZooKeeper
from tests.sim.zk_watchers import Watchers

_HEAD: Final = Struct("!ii")
_REPLY: Final = Struct("!iqi")
_PINGS_PER_TIMEOUT: Final = 3
_QUICK: Final = (0.0002, 0.003)
_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 1.0
_CLOSED_STATES: Final = frozenset({KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED, KeeperState.CLOSED})


class SimKazoo:
    """The factory of the clients of one simulated process."""

    def __init__(self, server: SimZooKeeper, owner: str, *, delay_s: tuple[float, float] = _QUICK) -> None:
        """``delay_s`` is the least and the most that a message takes in one direction."""
        self.server = server
        self.owner = owner
        self.delay_s = delay_s
        self.clients: list[SimKazooClient] = []

    @property
    def client(self) -> "SimKazooClient":
        """The latest client."""
        return self.clients[-1]

    def make(self, hosts: str, timeout_s: float) -> Kazoo:
        """Make a client with its own stream of random numbers."""
        rng = self.server.loop.rng(f"kazoo {self.owner} {len(self.clients)}")
        self.clients.append(SimKazooClient(self.server, self.owner, hosts, timeout_s, rng, self.delay_s))
        return self.client

    async def end(self, client: Kazoo) -> None:
        """Close the session, if it can be reached."""
        assert isinstance(client, SimKazooClient)
        stopped: Any = self.server.loop.create_future()
        client.stop(lambda: stopped.done() or stopped.set_result(None))
        await stopped


class SimKazooClient(Watchers):
    """The used part of a ``KazooClient``, and its faults. See the module."""

    def __init__(
        self,
        server: SimZooKeeper,
        owner: str,
        hosts: str,
        timeout_s: float,
        rng: Random,
        delay_s: tuple[float, float],
    ) -> None:
        _, slash, chroot = hosts.partition("/")
        at = partial(server.loop.call_at, context=server.loop.context_of(owner))
        super().__init__(slash + chroot if chroot else "", server.loop.time, at, rng.random)
        self.owner = owner
        self.delay_s = delay_s
        self.replica: Replica = server.leader
        self._server = server
        self._loop: VirtualLoop = server.loop
        self._timeout_s = timeout_s
        self._random = rng.random
        self._inside = server.loop.context_of(owner)
        self._outside = server.loop.context_of("")
        self._session_id: int | None = None
        self.negotiated_timeout_s: float | None = None
        self._listeners: list[Callable[[str], object]] = []
        self._state: str = KeeperState.CLOSED
        self._queue: deque[tuple[Any, ReplyTarget | None]] = deque()
        self._pending: deque[tuple[Any, ReplyTarget | None, int]] = deque()
        self._link: Connection | None = None
        self._xid = 0
        self._last_zxid = 0
        self._retry_s = _RETRY_S
        self._unreachable_until = 0.0
        self._is_muted = False
        self._waits_for_pong = False
        self._when_stopped: Callable[[], object] | None = None
        self._is_stopped = False
        self._faults: list[RequestFault] = []
        self._sent_until = 0.0
        self._packet_of = -1.0
        self._packet: list[bytes] = []
        self._inbox = Inbox(server.loop, self._inside, rng.random, self._delay)

    # What the session uses

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """Call ``listener`` with each new state."""
        self._listeners.append(listener)

    def start_async(self) -> None:
        """Begin to connect."""
        self._loop.call_soon(self._knock, context=self._inside)

    def _call(self, request: Any, async_object: ReplyTarget) -> object:
        if self._state == KeeperState.CLOSED:
            async_object.set_exception(ConnectionClosedError("Connection has been closed"))
        elif self._state == KeeperState.EXPIRED_SESSION:
            async_object.set_exception(SessionExpiredError())
        else:
            self._queue.append((request, async_object))
            if self._state == KeeperState.CONNECTED:
                self._flush()
        return None

    def stop(self, when_stopped: Callable[[], object]) -> None:
        """Close the session if there is a connection; the client is unusable afterwards in any case."""
        self._is_stopped = True
        if self._state == KeeperState.CONNECTED:
            self._when_stopped = when_stopped
            self._queue.append((CloseInstance, None))
            self._flush()
        else:
            self._enter(KeeperState.CLOSED)
            when_stopped()

    # Faults

    def cut(self, for_s: float = 0.0, *, silent: bool = False) -> None:
        """Break the connection and lose all messages on the way; no new connection is possible for so many seconds."""
        self._unreachable_until = max(self._unreachable_until, self._loop.time() + for_s)
        self._loop.trace(f"cut {self.owner} for {for_s:.6f} {silent=}")
        if silent:
            self._is_muted = True
        elif self._link is not None:
            self._link.break_off()

    def lose_reply(self, of: int | None = None, skip: int = 0, *, for_s: float = 0.0) -> None:
        """Let the server carry out a request, and break the connection before the reply.

        It is the first request with that opcode after ``skip`` others.
        """
        self._faults.append(RequestFault(of, skip, for_s, is_committed=True))

    def lose_request(self, of: int | None = None, skip: int = 0, *, for_s: float = 0.0) -> None:
        """Break the connection before a request with that opcode reaches the server."""
        self._faults.append(RequestFault(of, skip, for_s, is_committed=False))

    def heal(self) -> None:
        """End every fault; a silent connection breaks, so that the next one is good."""
        self._faults.clear()
        self._unreachable_until = 0.0
        self.watch_lag_s = 0.0
        self.delay_s = _QUICK
        self.replica = self._server.leader
        if self._is_muted and self._link is not None:
            self._link.break_off()

    @property
    def client_state(self) -> str:
        """One of kazoo's ``KeeperState``."""
        return self._state

    @property
    def is_connected(self) -> bool:
        """Whether kazoo believes to be connected."""
        return self._link is not None and self._state == KeeperState.CONNECTED

    @property
    def session_id(self) -> int | None:
        """The session that kazoo believes to have."""
        return self._session_id

    # Connecting

    def _knock(self) -> None:
        if not self._is_stopped:
            self._enter(KeeperState.CONNECTING)
            self._loop.call_later(self._delay(), self._knocked, context=self._outside)

    def _knocked(self) -> None:
        """Reach the server and open a connection."""
        if self._is_stopped:
            return
        now = self._loop.time()
        is_behind = self.replica.zxid < self._last_zxid
        if not self._server.is_up or now < self._unreachable_until or is_behind or self._loop.is_dead(self.owner):
            self._inbox.put(self._retry)
            return
        self._is_muted = False
        session = self._server.sessions.get(self._session_id or 0)
        if session is None and self._session_id:
            self._inbox.put(self._expired)
            return
        granted_s = min(self._timeout_s, self._server.longest_session_s)
        session = session or self._server.new_session(granted_s, beats=False)
        self._link = Connection(self.replica, session, self, self._broken)
        self._sent_until = now
        self._packet_of = -1.0
        self._inbox.put(self._established, self._link)

    def _retry(self) -> None:
        if self._is_stopped:
            return
        wait = self._retry_s * (0.6 + 0.8 * self._random())
        self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
        self._loop.call_later(wait, self._knock, context=self._inside)

    def _established(self, link: Connection) -> None:
        if link is not self._link or self._is_stopped:
            return
        self._retry_s = _RETRY_S
        self._session_id = link.session.id
        self.negotiated_timeout_s = link.session.timeout_s
        self._xid = 0
        self._waits_for_pong = False
        self._enter(KeeperState.CONNECTED)
        self._flush()
        self._ping_later(link)

    def _ping_later(self, link: Connection) -> None:
        self._loop.call_later(link.session.timeout_s / _PINGS_PER_TIMEOUT, self._ping, link, context=self._inside)

    def _expired(self) -> None:
        self._retry_s = _RETRY_S
        self._enter(KeeperState.EXPIRED_SESSION)
        self._retry()

    def _ping(self, link: Connection) -> None:
        if link is not self._link:
            return
        if self._waits_for_pong:
            link.break_off()
            return
        if self._is_muted:
            self._waits_for_pong = True
        elif link.is_open:
            link.session.touch()
        self._ping_later(link)

    def _broken(self) -> None:
        """The connection is broken: all messages on the way are lost, and the client notices."""
        self._inbox.lose_all()
        self._sent_until = 0.0
        self._packet_of = -1.0
        self._inbox.put(self._dropped, self._link)

    def hang_up(self) -> None:
        """Close the connection from the server's side, after everything that the server sent."""
        self._inbox.put(self._dropped, self._link)

    def _dropped(self, link: Connection | None) -> None:
        if link is not self._link or self._state != KeeperState.CONNECTED:
            if link is self._link and self._state == KeeperState.CONNECTING:
                self._link = None
                self._retry()
            return
        self._link = None
        if self._is_stopped:
            self._finish()
            return
        self._enter(KeeperState.CONNECTING)
        self._retry()

    def _finish(self) -> None:
        self._link = None
        self._enter(KeeperState.CLOSED)
        if self._when_stopped is not None:
            self._when_stopped()

    # States, as in KazooClient._session_callback

    def _enter(self, state: str) -> None:
        if state == self._state:
            return
        was_closed = self._state in _CLOSED_STATES
        self._state = state
        if was_closed and state == KeeperState.CONNECTING:
            return
        if state == KeeperState.CONNECTED:
            self._tell(KazooState.CONNECTED)
        elif state in _CLOSED_STATES:
            self._tell(KazooState.LOST)
            self._fail_all(SessionExpiredError() if state == KeeperState.EXPIRED_SESSION else ConnectionLoss())
            self._forget_watchers(state)
            self._session_id = None
            self._last_zxid = 0
        else:
            self._fail_all(ConnectionLoss())
            self._tell(KazooState.SUSPENDED)
            self._forget_watchers(state)

    def _tell(self, state: str) -> None:
        self._loop.trace(f"kazoo {self.owner} {state} {self._session_id or 0:x}")
        for listener in self._listeners:
            listener(state)

    def _fail_all(self, error: Exception) -> None:
        answers = [*(answer for _, answer, _ in self._pending), *(answer for _, answer in self._queue)]
        self._pending.clear()
        self._queue.clear()
        for answer in answers:
            if answer is not None:
                answer.set_exception(error)

    # Sending

    def _flush(self) -> None:
        """Send all requests of one instant together."""
        now = self._loop.time()
        if self._packet_of != now:
            self._packet_of = now
            self._packet = []
            self._sent_until = max(self._sent_until, now + self._delay())
            self._loop.call_at(self._sent_until, self._arrive, self._link, self._packet, context=self._outside)
        while self._queue:
            request, answer = self._queue.popleft()
            self._xid += 1
            self._pending.append((request, answer, self._xid))
            self._packet.append(_HEAD.pack(self._xid, request.type) + request.serialize())

    def _arrive(self, link: Connection | None, packet: list[bytes]) -> None:
        """Deliver requests at the server."""
        for message in packet:
            if link is None or self._is_muted or not link.is_open:
                return
            fault = fault_for(message, self._faults) if self._faults else None
            if fault is None or fault.is_committed:
                link.request(message)
            if fault is not None:
                self._loop.trace(f"{fault.name} of {self.owner}")
                self.cut(fault.for_s)

    def _delay(self) -> float:
        least, most = self.delay_s
        return least + (most - least) * self._random()

    # Receiving

    def receive(self, message: bytes) -> None:
        """Take bytes from the server, in order."""
        if not self._is_muted:
            self._inbox.put(self._read, self._link, message)

    def _read(self, link: Connection, message: bytes) -> None:
        """Read one message, as ConnectionHandler._read_socket and the methods that it calls."""
        if link is not self._link:
            return
        xid, zxid, code = _REPLY.unpack_from(message, 0)
        if xid == wire.WATCH_XID:
            if not self._is_stopped:
                self._fired(message, _REPLY.size, self._state)
            return
        request, answer, expected = self._pending.popleft()
        assert xid == expected, f"xids do not match, expected {expected}, received {xid}"
        if zxid > 0:
            self._last_zxid = zxid
        if request is CloseInstance:
            self._finish()
        elif answer is not None:
            self._read_answer(request, answer, code, message)

    def _read_answer(self, request: Any, answer: ReplyTarget, code: int, message: bytes) -> None:
        is_absent = code == NoNodeError.code and request.type == Exists.type
        if code and not is_absent:
            answer.set_exception(EXCEPTIONS[code]())
            return
        if is_absent:
            answer.set(None)
        else:
            try:
                answer.set(request.deserialize(message, _REPLY.size))
            except Exception as error:  # noqa: BLE001  # as kazoo does
                answer.set_exception(error)
                return
        if not self._is_stopped:
            self._register(request)
