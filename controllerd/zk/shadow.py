"""A ZooKeeper that is thought of: a picture, and on it what somebody would have written. The picture stays as it is.

The ordinary store works over it as over a real session, versions and fence included, so that the ordinary code shows
what it would do. Watches never fire.
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
    Check,
    Committed,
    Create,
    Delete,
    Node,
    Operation,
    Outcome,
    SetData,
    Transaction,
    ZooKeeper,
)
from controllerd.zk.pictures import Picture

NOT_EMPTY: Final = -111
SHADOW_SESSION: Final = 1
_FIRST_ZXID: Final = 1 << 62
"""Later than any real one: what is created here never looks like something that was there before."""
_FIRST_NUMBER: Final = 1 << 32
"""Ten digits, as in every sequential name, but beyond what a server ever appends."""
_FOLDER: Final = Node(None, 0, 0)


class Shadow(ZooKeeper):
    """One session on a copy of a picture that costs as much as is changed."""

    def __init__(self, picture: Picture, session_id: int = SHADOW_SESSION) -> None:
        self._picture = picture
        self._session_id = session_id
        self._nodes: dict[str, Node | None] = {}
        """What differs from the picture; None: gone."""
        self._children: dict[str, set[str]] = {}
        """The children of those znodes that got or lost some."""
        self._zxids = itertools.count(_FIRST_ZXID)
        self._numbers = itertools.count(_FIRST_NUMBER)
        self.written: list[Operation] = []
        """Every operation that took effect, without checks, in order."""

    @property
    def session_id(self) -> int:
        """The id of the session, which owns what is ephemeral here."""
        return self._session_id

    def node(self, path: str) -> Node | None:
        """The znode as it would be now."""
        if path in self._nodes:
            return self._nodes[path]
        node = self._picture.nodes.get(path)
        return node if node is not None or not self._is_folder(path) else _FOLDER

    def lay(self, path: str, node: Node | None) -> None:
        """A fact: the znode is exactly so (None: it is gone, with everything below it). Nobody here wrote it."""
        if node is None:
            for name in list(self._below(path) or ()):
                self.lay(f"{path}/{name}", None)
        if (self.node(path) is None) != (node is None):
            self._link(path, is_there=node is not None)
        self._nodes[path] = node

    async def read(self, paths: Sequence[str]) -> list[Node | None]:
        """Read many znodes."""
        return [self.node(path) for path in paths]

    async def read_and_watch(
        self,
        paths: Sequence[str],
        *,
        absent_too: bool = False,  # noqa: ARG002  # nothing is watched, so there is nothing to choose
    ) -> list[Node | None]:
        """Read many znodes; a watch would never fire."""
        return await self.read(paths)

    async def children(
        self,
        path: str,
        *,
        watch: bool = False,  # noqa: ARG002  # as above
    ) -> list[str] | None:
        """The names below a znode; a watch would never fire."""
        names = self._below(path)
        return sorted(names) if names is not None else None

    async def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Apply them in order, each as a whole or not at all."""
        return [self._apply(transaction) for transaction in transactions]

    async def everybody_may(self, paths: Sequence[str]) -> list[bool | None]:
        """ACLs are not in a picture: every znode counts as open."""
        return [True if self.node(path) is not None else None for path in paths]

    async def sync(self) -> None:
        """There is nobody to catch up with."""

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """What a watch would begin; none fires, so there is nothing to do."""

    # -- transactions --------------------------------------------------------------------------------------------------

    def _apply(self, transaction: Transaction) -> Outcome:
        zxid = next(self._zxids)
        before: list[tuple[str, Node | None]] = []
        done = [self._numbered(operation) for operation in transaction]
        for index, operation in enumerate(done):
            code = self._refusal(operation)
            if code != OK:
                for path, node in reversed(before):
                    self.lay(path, node)
                return Aborted(zxid, index, code)
            if not isinstance(operation, Check):
                before.append((operation.path, self.node(operation.path)))
                self.lay(operation.path, self._after(operation, zxid))
        self.written += [operation for operation in done if not isinstance(operation, Check)]
        return Committed(zxid, tuple(map(self._version_after, done)))

    def _numbered(self, operation: Operation) -> Operation:
        """A sequential znode by a name that nothing else has; no number of a shadow means anything."""
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

    def _after(self, operation: Create | SetData | Delete, zxid: int) -> Node | None:
        match operation:
            case Create():
                return Node(operation.data, 0, zxid, self._session_id if operation.ephemeral else 0)
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
        """Whether the picture has something below a path of which it keeps no znode."""
        return path in self._picture.children or f"{path}/state" in self._picture.nodes

    def _below(self, path: str) -> set[str] | None:
        """The names below a znode, not to be changed; None if it does not exist."""
        if path in self._children:
            return self._children[path] if self._exists(path) else None
        if f"{path}/state" in self._picture.nodes and path not in self._nodes:
            return {"state"}
        return set(self._picture.children.get(path, ())) if self._exists(path) else None

    def _link(self, path: str, *, is_there: bool) -> None:
        parent, _, name = path.rpartition("/")
        names = self._children.setdefault(parent, self._below(parent) or set())
        if is_there:
            names.add(name)
        else:
            names.discard(name)
