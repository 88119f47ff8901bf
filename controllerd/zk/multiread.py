"""The requests that kazoo lacks, over its serialization: MultiRead, SetWatches, and a transaction that tells its zxid.

kazoo calls ``serialize`` in its connection thread just before it sends, and ``deserialize`` there with the whole
answer, whose first 16 bytes are the header: xid, zxid, error.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.protocol.serialization import (
    CheckVersion,
    read_buffer,
    read_string,
    write_buffer,
    write_string,
)
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.protocol.serialization import GetData as GetDataRequest
from kazoo.protocol.serialization import SetData as SetDataRequest
from kazoo.security import OPEN_ACL_UNSAFE

from controllerd.zk.access import NO_NODE, OK, Aborted, Check, Committed, Create, Delete, Node, Operation, SetData

_ERROR: Final = -1
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_HEADER: Final = struct.Struct("!iBi")
_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_REPLY: Final = struct.Struct("!iqi")
_END: Final = _HEADER.pack(-1, 1, -1)
_GET_HEADER: Final = _HEADER.pack(GetDataRequest.type, 0, -1)
_CREATE: Final = _HEADER.pack(CreateRequest.type, 0, -1)
_SET_DATA: Final = _HEADER.pack(SetDataRequest.type, 0, -1)
_DELETE: Final = _HEADER.pack(DeleteRequest.type, 0, -1)
_CHECK: Final = _HEADER.pack(CheckVersion.type, 0, -1)
_EPHEMERAL: Final = 1
_OPEN_ACL: Final = _INT.pack(len(OPEN_ACL_UNSAFE)) + b"".join(
    _INT.pack(acl.perms) + write_string(acl.id.scheme) + write_string(acl.id.id) for acl in OPEN_ACL_UNSAFE
)

UNREADABLE_VERSION: Final = -2
"""Version of a znode that exists and may not be read: no write can ever match it."""


class Nodes(NamedTuple):
    """What a MultiRead saw, and the zxid of the header: the state that it saw, at the least."""

    zxid: int
    nodes: list[Node | None]


class MultiRead:
    """Read the data of many znodes in one request (ZOOKEEPER-3402, ZooKeeper 3.6 and later). Paths with the chroot."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        """The request."""
        parts = [part for path in self._paths for part in (_GET_HEADER, write_string(path), b"\0")]
        return b"".join((*parts, _END))

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> Nodes:
        """Every znode in the order of the request, None for missing ones."""
        nodes: list[Node | None] = []
        kind, done, _ = _HEADER.unpack_from(answer, offset)
        while not done:
            offset += _HEADER.size
            node: Node | None
            if kind == _ERROR:
                (code,) = _INT.unpack_from(answer, offset)
                offset += _INT.size
                node = None if code == NO_NODE else Node(None, UNREADABLE_VERSION, 0)
            else:
                data, offset = read_buffer(answer, offset)
                node = node_of(data, _STAT.unpack_from(answer, offset))
                offset += _STAT.size
            nodes.append(node)
            kind, done, _ = _HEADER.unpack_from(answer, offset)
        return Nodes(zxid_of(answer), nodes)


class SetWatches:
    """Arm many watches at once, and be told of whatever changed since ``zxid``.

    The local watchers are registered while the request is written: in the thread that kazoo's own bookkeeping runs in,
    and before the server can answer.
    """

    type = 101

    def __init__(
        self,
        client: KazooClient,
        watcher: Callable[..., object],
        zxid: int,
        *,
        existing: Sequence[str],
        missing: Sequence[str] = (),
    ) -> None:
        """``zxid`` is that of the read that covered exactly these paths; paths are with the chroot."""
        self._client = client
        self._watcher = watcher
        self._zxid = zxid
        self._existing = existing
        self._missing = missing

    def serialize(self) -> bytes:
        """The request."""
        for path in (*self._existing, *self._missing):
            self._client._data_watchers[path].add(self._watcher)  # noqa: SLF001  # kazoo has no public way in
        parts = [_LONG.pack(self._zxid)]
        for paths in (self._existing, self._missing, ()):
            parts.append(_INT.pack(len(paths)))
            parts += [write_string(path) for path in paths]
        return b"".join(parts)

    @staticmethod
    def deserialize(_answer: bytes, _offset: int) -> bool:
        """There is nothing in the answer."""
        return True


class Multi:
    """A transaction whose outcome is a value that tells the zxid."""

    type = 14

    def __init__(self, operations: Sequence[Operation], chroot: str) -> None:
        self._operations = operations
        self._chroot = chroot

    def serialize(self) -> bytes:
        """The request."""
        chroot = self._chroot
        return b"".join([*(_serialize(operation, chroot + operation.path) for operation in self._operations), _END])

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Committed | Aborted]:
        """One outcome, in a list because kazoo takes what a transaction returns for a list of results."""
        zxid = zxid_of(answer)
        versions: list[int] = []
        codes: list[int] = []
        kind, done, _ = _HEADER.unpack_from(answer, offset)
        while not done:
            offset += _HEADER.size
            version = -1
            if kind == _ERROR:
                codes.append(*_INT.unpack_from(answer, offset))
                offset += _INT.size
            elif kind == SetDataRequest.type:
                version = _STAT.unpack_from(answer, offset)[4]
                offset += _STAT.size
            elif kind == CreateRequest.type:
                _, offset = read_string(answer, offset)
                version = 0
            versions.append(version)
            kind, done, _ = _HEADER.unpack_from(answer, offset)
        return [_aborted(zxid, codes) if codes else Committed(zxid, tuple(versions))]


def _aborted(zxid: int, codes: Sequence[int]) -> Aborted:
    """Those before the failed one have code 0 (rolled back), those after it RuntimeInconsistency."""
    failed = next((index for index, code in enumerate(codes) if code != OK), -1)
    return Aborted(zxid, failed, codes[failed])


def _serialize(operation: Operation, path: str) -> bytes:
    """By hand, without an object and a list of ACLs for each of what may be a hundred thousand operations."""
    match operation:
        case Create(_, data, ephemeral):
            flags = _EPHEMERAL if ephemeral else 0
            return b"".join((_CREATE, write_string(path), write_buffer(data), _OPEN_ACL, _INT.pack(flags)))
        case SetData(_, data, version):
            return b"".join((_SET_DATA, write_string(path), write_buffer(data), _INT.pack(version)))
        case Delete(_, version):
            return b"".join((_DELETE, write_string(path), _INT.pack(version)))
        case Check(_, version):
            return b"".join((_CHECK, write_string(path), _INT.pack(version)))


def zxid_of(answer: bytes) -> int:
    """The zxid in the header of an answer."""
    zxid: int = _REPLY.unpack_from(answer, 0)[1]
    return zxid


def node_of(data: bytes | None, stat: Sequence[int]) -> Node:
    """A znode from its data and its stat: czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, ..."""
    return Node(data, stat[4], stat[0], stat[7])
