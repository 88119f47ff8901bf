"""One client's connection to one server of the simulated ensemble: requests as bytes in, responses in order out."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from controllerd.zk.access import NO_NODE
from tests.sim import zk_wire as wire
from tests.sim.zk_server import CHANGED, CHILD, CREATED, DELETED, Replica, SimSession
from tests.sim.zk_tree import Refused, Znode


class Peer(Protocol):
    """The client's end of a connection."""

    def receive(self, message: bytes) -> None:
        """Take bytes from the server, in order."""
        ...

    def hang_up(self) -> None:
        """Close the connection from the server's side, after everything that the server sent."""
        ...


class Connection:
    """One client's connection to one server; answers and watch events leave in order."""

    def __init__(self, replica: Replica, session: SimSession, peer: Peer, broken: Callable[[], None]) -> None:
        """``broken`` is called when the connection breaks without notice, and messages on the way are lost."""
        self.session = session
        self.is_open = True
        self._replica = replica
        self._server = replica.server
        self._peer = peer
        self._broken = broken
        self._is_busy = False
        self._backlog: deque[bytes] = deque()
        if session.connection is not None:
            session.connection.close()
        session.connection = self
        session.touch()

    def send(self, message: bytes) -> None:
        """Send bytes to the client, unless it is gone."""
        if self.is_open:
            self._peer.receive(message)

    def close(self) -> None:
        """Close the connection from the server's side, after everything that the server sent."""
        if self.is_open:
            self._detach()
            self._peer.hang_up()

    def break_off(self) -> None:
        """Break the connection: messages on the way in either direction are lost."""
        if self.is_open:
            self._detach()
            self._broken()

    def _detach(self) -> None:
        self.is_open = False
        if self.session.connection is self:
            self.session.connection = None

    def request(self, message: bytes) -> None:
        """Take the bytes of a request: xid, opcode, body.

        While a follower lags behind one request, the next ones wait.
        """
        if not self.is_open:
            return
        self.session.touch()
        if self._is_busy:
            self._backlog.append(message)
            return
        self._serve(message)

    def _serve(self, message: bytes) -> None:
        xid, kind = wire.head_of(message)
        if kind in {wire.CREATE, wire.DELETE, wire.SET_DATA, wire.MULTI}:
            answer = self._write(xid, kind, message)
            self._answer_at(self._server.zxid, answer)
        elif kind == wire.SYNC:
            zxid = self._server.zxid
            self._answer_at(zxid, wire.reply(xid, zxid, 0, wire.path_of(wire.read_string(message, 8)[0])))
        elif kind == wire.CLOSE:
            self.send(wire.reply(xid, self._server.zxid))
            self.session.close()
        else:
            self.send(self._read(xid, kind, message))

    def _answer_at(self, zxid: int, answer: bytes) -> None:
        if self._replica.zxid >= zxid:
            self.send(answer)
            return
        self._is_busy = True
        self._replica.when(zxid, lambda: self._go_on(answer))

    def _go_on(self, answer: bytes) -> None:
        self._is_busy = False
        self.send(answer)
        while self._backlog and not self._is_busy and self.is_open:
            self._serve(self._backlog.popleft())

    def _write(self, xid: int, kind: int, message: bytes) -> bytes:
        parsed = wire.read_write(kind, message, 8)
        server = self._server
        # The watches that this fires go out before the answer, as from the real server.
        result = server.commit(parsed.operations, self.session.id)
        if parsed.acls and not isinstance(result, Refused):
            server.acls.update(parsed.acls)
        if kind == wire.MULTI:
            return wire.reply(xid, server.zxid, 0, wire.results_of(parsed.operations, result, server.leader.tree))
        if isinstance(result, Refused):
            return wire.reply(xid, server.zxid, result.code)
        (change,) = result
        body = b""
        if kind == wire.CREATE:
            body = wire.path_of(change.path)
        elif kind == wire.SET_DATA:
            body = wire.stat_of(change, server.leader.tree)
        return wire.reply(xid, server.zxid, 0, body)

    def _read(self, xid: int, kind: int, message: bytes) -> bytes:
        zxid, nodes = self._replica.zxid, self._replica.tree.nodes
        if kind == wire.MULTI_READ:
            paths = wire.read_multi_read(message, 8)
            self._tell_of_read(paths)
            return wire.reply(xid, zxid, 0, wire.nodes_of(map(nodes.get, paths), NO_NODE))
        if kind == wire.SET_WATCHES:
            self._set_watches(message)
            return wire.reply(xid, zxid)
        path, end = wire.read_string(message, 8)
        self._tell_of_read([path])
        node = nodes.get(path)
        if kind != wire.GET_ACL and message[end]:
            self._watch(kind, path, exists=node is not None)
        if node is None:
            return wire.reply(xid, zxid, NO_NODE)
        return wire.reply(xid, zxid, 0, self._body(kind, path, node))

    def _tell_of_read(self, paths: Sequence[str]) -> None:
        for observer in self._server.on_read:
            observer(self.session.id, paths, self._replica.zxid)

    def _body(self, kind: int, path: str, node: Znode) -> bytes:
        if kind == wire.GET_DATA:
            return wire.data_of(node)
        if kind == wire.EXISTS:
            return node.stat()
        if kind == wire.GET_CHILDREN:
            return wire.names_of(node)
        if kind == wire.GET_ACL:
            return wire.acl_of(self._server.acls.get(path, wire.OPEN_ACL), node)
        raise wire.Unsupported(f"opcode {kind}")

    def _watch(self, kind: int, path: str, *, exists: bool) -> None:
        if kind == wire.GET_CHILDREN:
            if exists:
                self._replica.watch_children(path, self)
        elif exists or kind == wire.EXISTS:
            self._replica.watch_data(path, self)

    def _set_watches(self, message: bytes) -> None:
        zxid, (existing, missing, parents) = wire.read_set_watches(message, 8)
        nodes = self._replica.tree.nodes
        for path in existing:
            node = nodes.get(path)
            if node is None or node.mzxid > zxid:
                self.send(wire.event(DELETED if node is None else CHANGED, path))
            else:
                self._replica.watch_data(path, self)
        for path in missing:
            if path in nodes:
                self.send(wire.event(CREATED, path))
            else:
                self._replica.watch_data(path, self)
        for path in parents:
            node = nodes.get(path)
            if node is None or node.pzxid > zxid:
                self.send(wire.event(DELETED if node is None else CHILD, path))
            else:
                self._replica.watch_children(path, self)
