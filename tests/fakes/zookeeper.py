"""A ZooKeeper in memory: a tree of znodes with versions, czxids, ephemeral owners and one-shot watches.

It does what the server does with the operations of ``controllerd.zk.access`` and never suspends, so that a handler over
it runs to its end by one ``send(None)``. Several sessions share one tree; ``tests/sim/test_contract.py`` runs the same
sequences on it and on a real server.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial

from controllerd.errors import StoreUnavailable
from controllerd.zk.access import (
    ANY_VERSION,
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Fired,
    Operation,
    ReplyLost,
    SetData,
    Transaction,
    TransactionOutcome,
    Znode,
    operation_name,
)
from controllerd.zk.multiread import UNREADABLE_VERSION

NOT_EMPTY = -111
NO_AUTH = -102
READ_CHUNK = 500
Undo = list[Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Write:
    """One operation that took effect."""

    op: str
    path: str
    data: bytes | None
    version: int
    """Data version of the znode afterwards, -1 when it is gone."""


@dataclass
class Tree:
    """The znodes, and the sessions that watch them."""

    nodes: dict[str, Znode] = field(default_factory=dict)
    below: dict[str, set[str]] = field(default_factory=lambda: {"/": set()})
    zxid: int = 0
    created: dict[str, int] = field(default_factory=dict)
    """How many children a znode ever had; sequential ones are numbered by it."""
    sessions: "list[FakeZooKeeper]" = field(default_factory=list)

    def outsider(self, *operations: Operation) -> None:
        """Write as another client: a broker, a tool, another controller. Must succeed."""
        outcome = self.apply(operations, session_id=0)
        assert isinstance(outcome, Committed), f"{operations}: {outcome}"

    def put(self, path: str, data: bytes | None = None) -> None:
        """Create a znode (with its parents) as another client, or change its data at any version."""
        missing = [parent for parent in _parents(path) if parent not in self.nodes]
        self.outsider(*(Create(parent, None) for parent in missing))
        exists = path in self.nodes
        self.outsider(SetData(path, data or b"", ANY_VERSION) if exists else Create(path, data))

    def remove(self, path: str) -> None:
        """Delete a znode and everything below it as another client."""
        for child in sorted(self.below.get(path, ())):
            self.remove(f"{path}/{child}")
        self.outsider(Delete(path))

    def children(self, path: str) -> list[str] | None:
        """The names below a znode, None if it does not exist."""
        return sorted(self.below[path]) if path in self.below else None

    def apply(self, operations: Transaction, session_id: int) -> TransactionOutcome:
        """All operations, or none of them."""
        self.zxid += 1
        fired: list[tuple[str, Fired]] = []
        undo: list[Callable[[], None]] = []
        for index, operation in enumerate(operations):
            if (code := self._apply(operation, session_id, fired, undo)) != OK:
                for step in reversed(undo):
                    step()
                return Aborted(self.zxid, index, code)
        for path, kind in fired:
            self._fire(path, kind)
        return Committed(self.zxid, tuple(self._version_after(operation) for operation in operations))

    def _version_after(self, operation: Operation) -> int:
        if isinstance(operation, Create) and operation.sequential:
            return 0
        is_data = isinstance(operation, Create | SetData)
        return self.nodes[operation.path].version if is_data and operation.path in self.nodes else -1

    def _apply(self, operation: Operation, session_id: int, fired: list[tuple[str, Fired]], undo: Undo) -> int:
        if isinstance(operation, Create):
            return self._create(operation, session_id, fired, undo)
        node = self.nodes.get(operation.path)
        if node is None:
            return NO_NODE
        if operation.version not in {ANY_VERSION, node.version}:
            return BAD_VERSION
        if isinstance(operation, SetData):
            undo.append(partial(self.nodes.__setitem__, operation.path, node))
            self.nodes[operation.path] = node._replace(data=operation.data, version=node.version + 1)
            fired.append((operation.path, Fired.CHANGED))
        return self._delete(operation.path, node, fired, undo) if isinstance(operation, Delete) else OK

    def _create(self, operation: Create, session_id: int, fired: list[tuple[str, Fired]], undo: Undo) -> int:
        parent = operation.path.rpartition("/")[0] or "/"
        number = self.created.get(parent, 0)
        path = f"{operation.path}{number:010}" if operation.sequential else operation.path
        if path in self.nodes:
            return NODE_EXISTS
        if parent not in self.below:
            return NO_NODE
        undo += [partial(self._detach, path), partial(self.created.__setitem__, parent, number)]
        self.created[parent] = number + 1
        self._attach(path, Znode(operation.data, 0, self.zxid, session_id if operation.ephemeral else 0))
        fired += [(path, Fired.CREATED), (parent, Fired.CHILD)]
        return OK

    def _delete(self, path: str, node: Znode, fired: list[tuple[str, Fired]], undo: Undo) -> int:
        if self.below[path]:
            return NOT_EMPTY
        undo.append(partial(self._attach, path, node))
        if path in self.created:
            undo.append(partial(self.created.__setitem__, path, self.created.pop(path)))
        self._detach(path)
        fired += [(path, Fired.DELETED), (path.rpartition("/")[0] or "/", Fired.CHILD)]
        return OK

    def _attach(self, path: str, node: Znode) -> None:
        parent, _, name = path.rpartition("/")
        self.nodes[path] = node
        self.below[path] = set()
        self.below[parent or "/"].add(name)

    def _detach(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        del self.nodes[path], self.below[path]
        self.below[parent or "/"].discard(name)

    def _fire(self, path: str, kind: Fired) -> None:
        for session in list(self.sessions):
            session.notice(path, kind)


def _parents(path: str) -> list[str]:
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]


class FakeZooKeeper:
    """One session of a ``Tree``; implements ``controllerd.zk.access.ZooKeeper``."""

    def __init__(self, tree: Tree | None = None, session_id: int = 1) -> None:
        self.tree = tree or Tree()
        self.tree.sessions.append(self)
        self._session_id = session_id
        self.on_watch: Callable[[str, Fired], None] = lambda _path, _fired: None
        self.writes: list[Write] = []
        """Every operation of this session that took effect, without checks, in order."""
        self.transactions: list[Transaction] = []
        """Every transaction that this session sent, refused ones too."""
        self.before_transaction: dict[int, Callable[[], None]] = {}
        """Functions to call just before the n-th transaction (counted from 1) is applied."""
        self.after_transaction: dict[int, Callable[[], None]] = {}
        """Functions to call just after it."""
        self.lose_reply_of: set[int] = set()
        """The answers of these transactions (counted from 1) are lost after they were applied."""
        self.round_trips = 0
        """Requests that a real session would have sent."""
        self.secured: set[str] = set()
        """Znodes whose ACL does not give every client every right."""
        self.forbidden: set[str] = set()
        """Znodes that this session may not read."""
        self.read_only: set[str] = set()
        """Znodes that this session may not write."""
        self.is_lost = False
        self._data_watches: set[str] = set()
        self._child_watches: set[str] = set()

    @property
    def session_id(self) -> int:
        """The id of the session."""
        return self._session_id

    def expire(self) -> None:
        """End the session: its ephemeral znodes are deleted, and every method raises ``StoreUnavailable``."""
        self.is_lost = True
        self.tree.sessions.remove(self)
        mine = [path for path, node in self.tree.nodes.items() if node.ephemeral_owner == self._session_id]
        for path in mine:
            self.tree.outsider(Delete(path))

    def reconnect_as(self, session_id: int) -> None:
        """Begin a new session on the same object."""
        self.is_lost = False
        self._session_id = session_id
        self._data_watches.clear()
        self._child_watches.clear()
        self.tree.sessions.append(self)

    def notice(self, path: str, kind: Fired) -> None:
        """A znode changed: fire the watch, once, if there is one."""
        watches = self._child_watches if kind is Fired.CHILD else self._data_watches
        if kind is Fired.DELETED:
            self._child_watches.discard(path)
        if path in watches:
            watches.discard(path)
            self.on_watch(path, kind)

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read many."""
        self._alive()
        self.round_trips += -(-len(paths) // READ_CHUNK)
        nodes = [self.tree.nodes.get(path) for path in paths]
        if self.forbidden:
            found = zip(paths, nodes, strict=True)
            return [node if path not in self.forbidden else Znode(None, UNREADABLE_VERSION, 0) for path, node in found]
        return nodes

    async def read_and_watch(self, paths: Sequence[str], *, absent_too: bool = False) -> list[Znode | None]:
        """Read many and watch them."""
        nodes = await self.read(paths)
        self._data_watches.update(path for path, node in zip(paths, nodes, strict=True) if node or absent_too)
        return nodes

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """Names below."""
        self._alive()
        self.round_trips += 1
        names = self.tree.children(path)
        if watch and names is not None:
            self._child_watches.add(path)
        return names

    async def commit(self, transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        """Apply them in order."""
        return [self._commit(transaction) for transaction in transactions]

    def _commit(self, transaction: Transaction) -> TransactionOutcome:
        self._alive()
        self.transactions.append(transaction)
        self.round_trips += 1
        number = len(self.transactions)
        self.before_transaction.pop(number, lambda: None)()
        denied = [index for index, operation in enumerate(transaction) if operation.path in self.read_only]
        if denied:
            return Aborted(self.tree.zxid, denied[0], NO_AUTH)
        outcome = self.tree.apply(transaction, self._session_id)
        if isinstance(outcome, Committed):
            self.writes += [
                Write(
                    operation_name(operation),
                    operation.path,
                    operation.data if isinstance(operation, Create | SetData) else None,
                    version,
                )
                for operation, version in zip(transaction, outcome.versions, strict=True)
                if not isinstance(operation, CheckVersion)
            ]
        self.after_transaction.pop(number, lambda: None)()
        return ReplyLost() if number in self.lose_reply_of else outcome

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """ACLs."""
        self._alive()
        return [path not in self.secured if path in self.tree.nodes else None for path in paths]

    async def sync(self) -> None:
        """There is but one server."""
        self._alive()

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run it at once: nothing here suspends."""
        run(work())

    def _alive(self) -> None:
        if self.is_lost:
            raise StoreUnavailable("the session is lost")


def run(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine that never suspends to its end, without an event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AssertionError("a fake suspended")
