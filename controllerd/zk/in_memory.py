"""ZooKeeper in memory, for dry runs: an image of a cluster, and the writes of a controller on top of it.

The ordinary store works over it as over a real session, versions and fence included, so that a dry run shows the writes
that the same code would make. The image itself is not changed. Watches never fire.
"""

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

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
    Operation,
    SetData,
    Transaction,
    TransactionOutcome,
    Znode,
    ZooKeeper,
)
from controllerd.zk.image import ClusterImage

NOT_EMPTY: Final = -111
IN_MEMORY_SESSION: Final = 1
_FIRST_ZXID: Final = 1 << 62
"""Later than any real zxid, so that a znode that is created here never looks like an older one."""
_FIRST_NUMBER: Final = 1 << 32
"""A number of ten digits, as in every sequential name, but higher than a server ever appends."""
_FOLDER: Final = Znode(None, 0, 0)


class InMemoryZooKeeper(ZooKeeper):
    """One session on a copy of an image; only the changes take memory."""

    def __init__(self, image: ClusterImage, session_id: int = IN_MEMORY_SESSION) -> None:
        self._image = image
        self._session_id = session_id
        self._nodes: dict[str, Znode | None] = {}
        """The znodes that differ from the image; None: gone."""
        self._children: dict[str, set[str]] = {}
        """The children of the znodes that got or lost some."""
        self._zxids = itertools.count(_FIRST_ZXID)
        self._numbers = itertools.count(_FIRST_NUMBER)
        self.written: list[Operation] = []
        """Every operation that took effect, without checks, in order."""

    @property
    def session_id(self) -> int:
        """The id of the session, which owns the ephemeral znodes that are created here."""
        return self._session_id

    def node(self, path: str) -> Znode | None:
        """Return the znode with the changes; None if it does not exist."""
        if path in self._nodes:
            return self._nodes[path]
        node = self._image.nodes.get(path)
        return node if node is not None or not self._is_folder(path) else _FOLDER

    def set_node(self, path: str, node: Znode | None) -> None:
        """Set a znode (None: it is gone, with everything below it) without a transaction, as another client's write."""
        if node is None:
            for name in list(self._below(path) or ()):
                self.set_node(f"{path}/{name}", None)
        if (self.node(path) is None) != (node is None):
            self._link(path, is_there=node is not None)
        self._nodes[path] = node

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read many znodes."""
        return [self.node(path) for path in paths]

    async def read_and_watch(
        self,
        paths: Sequence[str],
        *,
        absent_too: bool = False,  # noqa: ARG002  # nothing is watched, so there is nothing to choose
    ) -> list[Znode | None]:
        """Read many znodes; a watch would never fire."""
        return await self.read(paths)

    async def children(
        self,
        path: str,
        *,
        watch: bool = False,  # noqa: ARG002  # as above
    ) -> list[str] | None:
        """Return the names below a znode; a watch would never fire."""
        names = self._below(path)
        return sorted(names) if names is not None else None

    async def commit(self, transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        """Apply them in order, each as a whole or not at all."""
        return [self._apply(transaction) for transaction in transactions]

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """Return True for each znode that exists: an image has no ACLs."""
        return [True if self.node(path) is not None else None for path in paths]

    async def sync(self) -> None:
        """Do nothing: there is no server that lags behind."""

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do nothing: it would arm a watch, and none fires."""

    # -- transactions --------------------------------------------------------------------------------------------------

    def _apply(self, transaction: Transaction) -> TransactionOutcome:
        zxid = next(self._zxids)
        before: list[tuple[str, Znode | None]] = []
        done = [self._numbered(operation) for operation in transaction]
        for index, operation in enumerate(done):
            code = self._refusal(operation)
            if code != OK:
                for path, node in reversed(before):
                    self.set_node(path, node)
                return Aborted(zxid, index, code)
            if not isinstance(operation, CheckVersion):
                before.append((operation.path, self.node(operation.path)))
                self.set_node(operation.path, self._after(operation, zxid))
        self.written += [operation for operation in done if not isinstance(operation, CheckVersion)]
        return Committed(zxid, tuple(map(self._version_after, done)))

    def _numbered(self, operation: Operation) -> Operation:
        """Give a sequential znode a unique name; the number has no other meaning here."""
        is_sequential = isinstance(operation, Create) and operation.sequential
        return operation._replace(path=f"{operation.path}{next(self._numbers):010}") if is_sequential else operation

    def _refusal(self, operation: Operation) -> int:
        node = self.node(operation.path)
        if isinstance(operation, Create):
            if node is not None:
                return NODE_EXISTS
            return OK if self._exists(operation.path.rpartition("/")[0]) else NO_NODE
        if node is None:
            return NO_NODE
        if operation.version not in {ANY_VERSION, node.version}:
            return BAD_VERSION
        return NOT_EMPTY if isinstance(operation, Delete) and self._below(operation.path) else OK

    def _after(self, operation: Create | SetData | Delete, zxid: int) -> Znode | None:
        match operation:
            case Create():
                return Znode(operation.data, 0, zxid, self._session_id if operation.ephemeral else 0)
            case SetData():
                node = self.node(operation.path)
                assert node is not None, operation.path
                return node._replace(data=operation.data, version=node.version + 1)
            case Delete():
                return None

    def _version_after(self, operation: Operation) -> int:
        node = self.node(operation.path) if isinstance(operation, Create | SetData) else None
        return node.version if node is not None else -1

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _exists(self, path: str) -> bool:
        return not path or self.node(path) is not None

    def _is_folder(self, path: str) -> bool:
        """Whether the image has a znode below a path whose own znode it does not keep."""
        return path in self._image.children or f"{path}/state" in self._image.nodes

    def _below(self, path: str) -> set[str] | None:
        """Return the names below a znode, not to be changed; None if it does not exist."""
        if path in self._children:
            return self._children[path] if self._exists(path) else None
        if f"{path}/state" in self._image.nodes and path not in self._nodes:
            return {"state"}
        return set(self._image.children.get(path, ())) if self._exists(path) else None

    def _link(self, path: str, *, is_there: bool) -> None:
        parent, _, name = path.rpartition("/")
        names = self._children.setdefault(parent, self._below(parent) or set())
        if is_there:
            names.add(name)
        else:
            names.discard(name)
