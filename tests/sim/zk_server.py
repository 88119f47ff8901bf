"""A ZooKeeper ensemble in memory, in virtual time: sessions, one-shot watches, transactions, and followers that lag.

``server.commit`` is the leader. Clients connect to it, or to a follower (``server.follower(lag_s)``), through a
``Connection`` that takes the bytes of requests and sends the bytes of responses, strictly in order; the client's end is
``tests.sim.zk_client``. ``tests/sim/test_contract.py`` compares the model with a real server.

**For other writers** (simulated brokers, tools), everything happens at once, on the leader::

    session = server.new_session(6.0)              # kept alive by itself until silenced
    epoch = session.create_ephemeral(path, data)   # gives the czxid
    session.close(); session.expire()
    session.fall_silent(); session.speak()         # stops and starts its heartbeats; silent for a time-out: expired
    server.put(path, data); server.remove(path)    # with parents; with everything below
    server.put_sequential(prefix, data)            # gives the path
    server.outsider(*operations)                   # must succeed; gives the zxid
    server.attempt(operations, session.id)         # Committed or Aborted
    server.nodes[path].data                        # the committed data
    server.observers.append(callable)              # called with each committed ``Txn``, synchronously; must not write

**Faults**: ``server.expire(session_id)``, ``server.stop()`` and ``start()`` or ``down_for(seconds)`` (every connection
breaks; sessions survive, and their clocks start anew), ``follower.lag_s`` (until ``server.heal()``). While it is down,
writes of others raise ``ServerDown``; check ``server.is_up``. Faults of one client are in ``tests.sim.zk_client``.
"""

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from zlib import crc32

from controllerd.zk.access import Aborted, Committed, Create, Delete, Operation, SetData
from tests.sim import zk_wire as wire
from tests.sim.loop import VirtualLoop
from tests.sim.zk_tree import Change, Refused, Tree, Txn, Znode

if TYPE_CHECKING:
    from tests.sim.zk_connection import Connection

CREATED: Final = 1
DELETED: Final = 2
CHANGED: Final = 3
CHILD: Final = 4
_FIRST_SESSION: Final = 0x1_0000_0000
_FIRST_ZXID: Final = 0x1_0000_0000

Observer = Callable[[Txn], object]
Watchers = dict[str, dict["Connection", None]]


class ServerDown(Exception):
    """The ensemble is down, so that the write is impossible."""


class SimSession:
    """A session at the server. It lives as long as heartbeats arrive; no connection is needed."""

    def __init__(self, server: "SimZooKeeper", number: int, timeout_s: float, *, beats: bool) -> None:
        self.id = number
        self.timeout_s = timeout_s
        self.is_alive = True
        self.ephemerals: dict[str, None] = {}
        self.connection: Connection | None = None
        self._server = server
        self._beats = beats
        self._touched_at = server.loop.time()
        self._timer: TimerHandle | None = None
        if not beats:
            self._wait()

    def touch(self) -> None:
        """Take a heartbeat."""
        self._touched_at = self._server.loop.time()

    def fall_silent(self) -> None:
        """Stop the heartbeats."""
        if self._beats:
            self._beats = False
            self.touch()
            self._wait()

    def speak(self) -> None:
        """Start the heartbeats again, if the session still lives."""
        self._beats = True

    def create_ephemeral(self, path: str, data: bytes | None) -> int:
        """Create an ephemeral znode; return its czxid. Must succeed."""
        return self.commit(Create(path, data, ephemeral=True))

    def commit(self, *operations: Operation) -> int:
        """Commit a transaction of this session; return its zxid. Must succeed."""
        outcome = self._server.attempt(operations, self.id)
        assert isinstance(outcome, Committed), f"{operations}: {outcome}"
        return outcome.zxid

    def close(self) -> None:
        """End the session: its ephemeral znodes are deleted at once."""
        self._server.end_session(self, "closed")

    def expire(self) -> None:
        """End the session as if it had been silent for too long."""
        self._server.end_session(self, "expired")

    def _wait(self) -> None:
        loop = self._server.loop
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._touched_at + self.timeout_s, self._look, context=loop.context_of(""))

    def _look(self) -> None:
        if not self.is_alive or self._beats:
            return
        # 1 us: the sum of floats above may be slightly later than the time-out.
        if self._server.is_up and self._server.loop.time() - self._touched_at > self.timeout_s - 1e-6:
            self.expire()
        elif self._server.is_up:
            self._wait()

    def restart_clock(self) -> None:
        """Give the session its whole time-out again, because the server is up again."""
        if self.is_alive and not self._beats:
            self.touch()
            self._wait()


class Replica:
    """One server: the leader, or a follower with an earlier state of the leader."""

    def __init__(self, server: "SimZooKeeper", tree: Tree, zxid: int) -> None:
        self.server = server
        self.tree = tree
        self.zxid = zxid
        self.lag_s = (0.0, 0.0)
        """Least and most delay of each transaction, for a follower."""
        self._data: Watchers = {}
        self._child: Watchers = {}
        self._coming: deque[tuple[Txn, Sequence[Operation]]] = deque()
        self._arrives_at = 0.0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def watch_data(self, path: str, connection: "Connection") -> None:
        """Watch until the znode is created, changed or deleted."""
        self._data.setdefault(path, {})[connection] = None

    def watch_children(self, path: str, connection: "Connection") -> None:
        """Watch until a child comes or goes, or the znode is deleted."""
        self._child.setdefault(path, {})[connection] = None

    def when(self, zxid: int, act: Callable[[], None]) -> None:
        """Call ``act`` as soon as this server has reached the zxid; calls come with growing zxids."""
        if self.zxid >= zxid and not self._waiting:
            act()
        else:
            self._waiting.append((zxid, act))

    def follow(self, txn: Txn, operations: Sequence[Operation]) -> None:
        """Receive, later, a transaction that the leader has committed (or refused, without operations)."""
        server, (least, most) = self.server, self.lag_s
        due = server.loop.time() + least + (most - least) * server.random()
        self._arrives_at = max(self._arrives_at, due)
        self._coming.append((txn, operations))
        server.loop.call_at(self._arrives_at, self._arrive, context=server.loop.context_of(""))

    def _arrive(self) -> None:
        txn, operations = self._coming.popleft()
        applied = self.tree.apply(operations, txn.zxid, txn.session, txn.time)
        assert not isinstance(applied, Refused)
        self.advance(txn.zxid, applied)

    def advance(self, zxid: int, changes: Sequence[Change]) -> None:
        """Fire the watches for the state that the tree has now, then continue the requests that waited for it."""
        self.zxid = zxid
        for change in changes:
            if change.op == "create":
                self._fire(self._data, change.path, CREATED)
                self._fire(self._child, change.path.rpartition("/")[0] or "/", CHILD)
            elif change.op == "setData":
                self._fire(self._data, change.path, CHANGED)
            elif change.op == "delete":
                notified = self._fire(self._data, change.path, DELETED)
                self._fire(self._child, change.path, DELETED, notified)
                self._fire(self._child, change.path.rpartition("/")[0] or "/", CHILD)
        while self._waiting and self._waiting[0][0] <= zxid:
            self._waiting.popleft()[1]()

    @staticmethod
    def _fire(
        watchers: Watchers, path: str, kind: int, notified: dict["Connection", None] | None = None
    ) -> dict["Connection", None]:
        """Notify each watcher once, even if it watches both the data and the children of a deleted znode."""
        found = watchers.pop(path, None)
        if found is None:
            return {}
        for connection in found:
            if notified is None or connection not in notified:
                connection.send(wire.event(kind, path))
        return found


class SimZooKeeper:
    """The ensemble. See the module."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.zxid = _FIRST_ZXID
        self.is_up = True
        self.observers: list[Observer] = []
        self.on_read: list[Callable[[int, Sequence[str], int], None]] = []
        """Called with session, paths and the server's zxid when data is read, before the response leaves."""
        self.sessions: dict[int, SimSession] = {}
        self.acls: dict[str, bytes] = {}
        """The ACLs that are not open, in wire form."""
        self.leader = Replica(self, Tree(), self.zxid)
        self.followers: list[Replica] = []
        self.random = loop.rng("zookeeper").random
        self.longest_session_s = float("inf")
        """``maxSessionTimeout``: a client that asks for more is granted this."""
        self._sessions_made = 0
        self._is_committing = False

    @property
    def nodes(self) -> dict[str, Znode]:
        """The committed znodes by path."""
        return self.leader.tree.nodes

    def children(self, path: str) -> list[str] | None:
        """The names below a znode, None if it does not exist."""
        node = self.nodes.get(path)
        return sorted(node.children) if node is not None else None

    def follower(self, lag_s: tuple[float, float]) -> Replica:
        """Add a follower, whose state lags by that many seconds at least and at most."""
        replica = Replica(self, self.leader.tree.copy(), self.zxid)
        replica.lag_s = lag_s
        self.followers.append(replica)
        return replica

    def heal(self) -> None:
        """End the lag of every follower; transactions on the way arrive when they were due."""
        for follower in self.followers:
            follower.lag_s = (0.0, 0.0)

    # Sessions

    def new_session(self, timeout_s: float, *, beats: bool = True) -> SimSession:
        """Open a session that is kept alive by itself, or with ``beats`` False only by ``touch``."""
        self._sessions_made += 1
        session = SimSession(self, _FIRST_SESSION + self._sessions_made, timeout_s, beats=beats)
        self.sessions[session.id] = session
        return session

    def expire(self, session_id: int) -> None:
        """End a session as if it had been silent for too long."""
        if session_id in self.sessions:
            self.sessions[session_id].expire()

    def end_session(self, session: SimSession, how: str) -> None:
        """Delete the ephemeral znodes of the session in one transaction, then close its connection."""
        if not session.is_alive:
            return
        session.is_alive = False
        del self.sessions[session.id]
        self.loop.trace(f"zk session {session.id:x} {how}")
        self.commit([Delete(path) for path in session.ephemerals], session.id)
        if session.connection is not None:
            session.connection.close()

    # Writes

    def commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Change, ...] | Refused:
        """Commit a transaction, or return the index of the refused operation; ``zxid`` grows either way."""
        assert not self._is_committing, "an observer writes: let it call_soon"
        self._is_committing = True
        try:
            return self._commit(operations, session_id)
        finally:  # an observer that raises must not write either
            self._is_committing = False

    def _commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Change, ...] | Refused:
        self.zxid = zxid = self.zxid + 1
        now = self.loop.time()
        result = self.leader.tree.apply(operations, zxid, session_id, now)
        is_refused = isinstance(result, Refused)
        txn = Txn(zxid, session_id, now, () if isinstance(result, Refused) else result)
        for follower in self.followers:
            follower.follow(txn, () if is_refused else operations)
        self._note_bookkeeping(txn)
        self.leader.advance(zxid, txn.changes)
        if txn.changes:
            self._trace(txn)
            for observer in self.observers:
                observer(txn)
        return result

    def attempt(self, operations: Sequence[Operation], session_id: int = 0) -> Committed | Aborted:
        """Write as another program. :raises ServerDown: the ensemble is down."""
        if not self.is_up:
            raise ServerDown
        result = self.commit(operations, session_id)
        if isinstance(result, Refused):
            return Aborted(self.zxid, result.at, result.code)
        return Committed(self.zxid, tuple(c.version if c.op in {"create", "setData"} else -1 for c in result))

    def outsider(self, *operations: Operation) -> int:
        """Write as another program; return the zxid. Must succeed."""
        outcome = self.attempt(operations)
        assert isinstance(outcome, Committed), f"{operations}: {outcome}"
        return outcome.zxid

    def put(self, path: str, data: bytes | None = None) -> None:
        """Create the znode (with its parents) or change its data at any version, as another program."""
        names = path.split("/")[1:]
        parents = ["/" + "/".join(names[:depth]) for depth in range(1, len(names))]
        create = [Create(parent, None) for parent in parents if parent not in self.nodes]
        self.outsider(*create, SetData(path, data or b"", -1) if path in self.nodes else Create(path, data))

    def put_sequential(self, prefix: str, data: bytes | None = None) -> str:
        """Create a sequential znode as another program; its number is never used again below the parent."""
        parent = prefix.rpartition("/")[0]
        if parent not in self.nodes:
            self.put(parent)
        path = f"{prefix}{self.nodes[parent].created:010d}"
        self.outsider(Create(prefix, data, sequential=True))
        return path

    def remove(self, path: str) -> None:
        """Delete the znode and everything below it in one transaction, as another program."""
        self.outsider(*map(Delete, self._below(path)))

    def _below(self, path: str) -> list[str]:
        return [deeper for name in self.nodes[path].children for deeper in self._below(f"{path}/{name}")] + [path]

    def _note_bookkeeping(self, txn: Txn) -> None:
        for change in txn.changes:
            if self.acls and change.op == "delete":
                self.acls.pop(change.path, None)
            if change.ephemeral and change.op == "create":
                self.sessions[txn.session].ephemerals[change.path] = None
            elif change.ephemeral and change.op == "delete":
                for session in self.sessions.values():
                    session.ephemerals.pop(change.path, None)

    def _trace(self, txn: Txn) -> None:
        what = " ".join(f"{c.op}:{c.path}:{c.version}:{crc32(c.data or b''):x}" for c in txn.changes)
        self.loop.trace(f"zk {txn.zxid:x} by {txn.session:x} {what}")

    # Faults

    def stop(self) -> None:
        """Stop every server: connections break, sessions survive."""
        self.is_up = False
        self.loop.trace("zk down")
        for session in list(self.sessions.values()):
            if session.connection is not None:
                session.connection.break_off()

    def start(self) -> None:
        """Start the servers again, with the sessions that lived; each has its whole time-out again."""
        self.is_up = True
        self.loop.trace("zk up")
        for session in list(self.sessions.values()):
            session.restart_clock()

    def down_for(self, seconds: float) -> None:
        """Stop now, and start again after so many virtual seconds."""
        self.stop()
        self.loop.call_later(seconds, self.start, context=self.loop.context_of(""))
