"""The data of a simulated ZooKeeper server: znodes, and transactions that take effect as a whole or not at all."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from controllerd.zk.access import (
    ANY_VERSION,
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    CheckVersion,
    Create,
    Delete,
    Operation,
    SetData,
)

NO_CHILDREN_FOR_EPHEMERALS: Final = -108
NOT_EMPTY: Final = -111
BAD_ARGUMENTS: Final = -8
_STAT: Final = struct.Struct("!qqqqiiiqiiq")


class Znode:
    """One znode; use ``data``, ``version``, ``czxid``, ``mzxid``, ``owner`` and the names of its ``children``."""

    __slots__ = ("children", "ctime", "cversion", "czxid", "data", "mtime", "mzxid", "owner", "pzxid", "version")

    def __init__(self, data: bytes | None, zxid: int, now_ms: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = now_ms
        self.version = 0
        self.cversion = 0
        self.owner = owner
        """The session of an ephemeral znode, else 0."""
        self.children: dict[str, None] = {}

    @property
    def created(self) -> int:
        """How many children the znode ever had: the server counts no deletions, and ``cversion`` counts both."""
        return (self.cversion + len(self.children)) // 2

    def stat(self) -> bytes:
        """The stat in wire form."""
        return self.stat_at(self.version, self.data)

    def stat_at(self, version: int, data: bytes | None) -> bytes:
        """The stat as of an earlier operation of the same transaction."""
        return _STAT.pack(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            version,
            self.cversion,
            0,
            self.owner,
            len(data or b""),
            len(self.children),
            self.pzxid,
        )

    def copy(self) -> "Znode":
        """Copy the znode for a follower."""
        twin = Znode(self.data, self.czxid, self.ctime, self.owner)
        twin.mzxid, twin.pzxid, twin.mtime = self.mzxid, self.pzxid, self.mtime
        twin.version, twin.cversion = self.version, self.cversion
        twin.children = dict(self.children)
        return twin


class Change(NamedTuple):
    """One operation of a committed transaction."""

    op: str
    """create, setData, delete or check."""
    path: str
    data: bytes | None
    version: int
    """Data version of the znode afterwards; the last version of a deleted one; the required version of a check."""
    ephemeral: bool
    expected: int = ANY_VERSION
    """The data version that a setData or delete required."""


class Txn(NamedTuple):
    """A committed transaction."""

    zxid: int
    session: int
    """The session that committed it; 0 for a write without a session."""
    time: float
    """Virtual seconds."""
    changes: tuple[Change, ...]


class Refused(NamedTuple):
    """The index of the first operation that failed, and the reason."""

    at: int
    code: int


_Undo = list[tuple[str, Znode | None, tuple[bytes | None, int, int, int]]]


class Tree:
    """The znodes by path."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}

    def copy(self) -> "Tree":
        """Copy the tree for a follower."""
        twin = Tree()
        twin.nodes = {path: node.copy() for path, node in self.nodes.items()}
        return twin

    def apply(
        self, operations: Sequence[Operation], zxid: int, session: int, now_s: float
    ) -> tuple[Change, ...] | Refused:
        """Apply all operations, or none of them."""
        now_ms = int(now_s * 1000)
        undo: _Undo = []
        changes: list[Change] = []
        for index, operation in enumerate(operations):
            if isinstance(operation, Create):
                result = self._create(operation, zxid, session, now_ms, undo)
            else:
                result = self._alter(operation, zxid, now_ms, undo)
            if isinstance(result, int):
                self._roll_back(undo)
                return Refused(index, result)
            changes.append(result)
        return tuple(changes)

    def _create(self, operation: Create, zxid: int, session: int, now_ms: int, undo: _Undo) -> Change | int:
        above = operation.path.rpartition("/")[0]
        parent = self.nodes.get(above or "/")
        if parent is None:
            return NO_NODE
        path = f"{operation.path}{parent.created:010d}" if operation.sequential else operation.path
        if path in self.nodes:
            return NODE_EXISTS
        name = path.rpartition("/")[2]
        if parent.owner:
            return NO_CHILDREN_FOR_EPHEMERALS
        undo.append((path, None, (None, parent.cversion, parent.pzxid, 0)))
        self.nodes[path] = Znode(operation.data, zxid, now_ms, session if operation.ephemeral else 0)
        parent.children[name] = None
        parent.cversion += 1
        parent.pzxid = zxid
        return Change("create", path, operation.data, 0, operation.ephemeral)

    def _alter(self, operation: SetData | Delete | CheckVersion, zxid: int, now_ms: int, undo: _Undo) -> Change | int:
        path, version = operation.path, operation.version
        if path == "/" and isinstance(operation, Delete):
            return BAD_ARGUMENTS
        node = self.nodes.get(path)
        if node is None:
            return NO_NODE
        if version not in {ANY_VERSION, node.version}:
            return BAD_VERSION
        if isinstance(operation, CheckVersion):
            return Change("check", path, None, version, ephemeral=False)
        if isinstance(operation, Delete):
            return self._delete(operation, node, zxid, undo)
        undo.append((path, node, (node.data, node.version, node.mzxid, node.mtime)))
        node.data = operation.data
        node.version += 1
        node.mzxid = zxid
        node.mtime = now_ms
        return Change("setData", path, operation.data, node.version, node.owner != 0, version)

    def _delete(self, operation: Delete, node: Znode, zxid: int, undo: _Undo) -> Change | int:
        path = operation.path
        if node.children:
            return NOT_EMPTY
        above, _, name = path.rpartition("/")
        parent = self.nodes[above or "/"]
        undo.append((path, node, (None, parent.cversion, parent.pzxid, -1)))
        del self.nodes[path]
        del parent.children[name]
        parent.cversion += 1
        parent.pzxid = zxid
        return Change("delete", path, None, node.version, node.owner != 0, operation.version)

    def _roll_back(self, undo: _Undo) -> None:
        for path, node, before in reversed(undo):
            if node is not None and before[3] >= 0:
                node.data, node.version, node.mzxid, node.mtime = before
                continue
            above, _, name = path.rpartition("/")
            parent = self.nodes[above or "/"]
            _, parent.cversion, parent.pzxid, _ = before
            if node is None:
                del self.nodes[path]
                del parent.children[name]
            else:
                self.nodes[path] = node
                parent.children[name] = None
