"""The requests that kazoo lacks: MultiRead, SetWatches, and a transaction that returns its zxid.

kazoo calls ``serialize`` in its connection thread just before it sends, and ``deserialize`` there with the whole
answer, whose first 16 bytes are the header: xid, zxid, error.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.protocol.serialization import CheckVersion as CheckRequest
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.protocol.serialization import GetData as GetDataRequest
from kazoo.protocol.serialization import SetData as SetDataRequest
from kazoo.security import OPEN_ACL_UNSAFE

from controllerd.zk.access import (
    NO_NODE,
    OK,
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Operation,
    SetData,
    Znode,
)

_ERROR: Final = -1
_STAT_AND_NEXT: Final = struct.Struct("!q24xi8xq16xiBii")
"""A stat (czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid), then an entry."""
_STAT_SIZE: Final = 68
_VERSION_IN_STAT: Final = 32
_HEADER: Final = struct.Struct("!iBi")
_ENTRY: Final = struct.Struct("!iBii")
"""A header and the length of the buffer after it."""
_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_REPLY: Final = struct.Struct("!iqi")
_END: Final = _HEADER.pack(-1, 1, -1)
_GET_HEADER: Final = _HEADER.pack(GetDataRequest.type, 0, -1)
_CREATE: Final = _HEADER.pack(CreateRequest.type, 0, -1)
_SET_DATA: Final = _HEADER.pack(SetDataRequest.type, 0, -1)
_DELETE: Final = _HEADER.pack(DeleteRequest.type, 0, -1)
_CHECK: Final = _HEADER.pack(CheckRequest.type, 0, -1)
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2

UNREADABLE_VERSION: Final = -2
"""Version of a znode that exists and may not be read: no write can ever match it."""


class Nodes(NamedTuple):
    """The znodes of a MultiRead, and the zxid of its header: the znodes are of this state or of a later one."""

    zxid: int
    nodes: list[Znode | None]


class MultiRead:
    """Read the data of many znodes in one request (ZOOKEEPER-3402, ZooKeeper 3.6 and later). Paths with the chroot."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        """Return the request as bytes."""
        parts: list[bytes] = []
        for path in self._paths:
            raw = path.encode()
            parts += (_GETS[len(raw)], raw, b"\0")
        return b"".join((*parts, _END))

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> Nodes:
        """Return the znodes in the order of the request, None for missing ones.

        The loop runs 100,000 times for each load of a large cluster.
        """
        padded = answer + _INT.pack(0)  # the end has no length: with these bytes it is read like an entry
        nodes: list[Znode | None] = []
        add, new, stat_and_next = nodes.append, tuple.__new__, _STAT_AND_NEXT.unpack_from
        kind, done, _, length = _ENTRY.unpack_from(padded, offset)
        while not done:
            offset += _ENTRY.size
            if kind == _ERROR:  # such an entry has the error code instead of a length, and neither data nor stat
                add(None if length == NO_NODE else Znode(None, UNREADABLE_VERSION, 0))
                kind, done, _, length = _ENTRY.unpack_from(padded, offset)
                continue
            end = offset + length if length > 0 else offset
            data = padded[offset:end] if length >= 0 else None
            czxid, version, owner, kind, done, _, length = stat_and_next(padded, end)
            add(new(Znode, (data, version, czxid, owner)))
            offset = end + _STAT_SIZE
        return Nodes(zxid_of(answer), nodes)


class _Starts(dict[int, bytes]):
    """The first bytes of an operation up to its path, by the length of the path."""

    def __init__(self, header: bytes) -> None:
        super().__init__()
        self._header = header

    def __missing__(self, length: int) -> bytes:
        start = self[length] = self._header + _INT.pack(length)
        return start


_GETS: Final = _Starts(_GET_HEADER)


class SetWatches:
    """Arm many watches at once; those of znodes that changed since ``zxid`` fire at once.

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
        """Return the request as bytes, and register the watchers."""
        for path in (*self._existing, *self._missing):
            self._client._data_watchers[path].add(self._watcher)  # noqa: SLF001  # kazoo has no public way in
        parts = [_LONG.pack(self._zxid)]
        for paths in (self._existing, self._missing, ()):
            parts.append(_INT.pack(len(paths)))
            parts += [_string(path) for path in paths]
        return b"".join(parts)

    @staticmethod
    def deserialize(_answer: bytes, _offset: int) -> bool:
        """Return True: the answer is empty."""
        return True


class Multi:
    """A transaction whose answer is decoded to a value with its zxid."""

    type = 14

    def __init__(self, operations: Sequence[Operation], chroot: str) -> None:
        self._operations = operations
        self._chroot = chroot

    def serialize(self) -> bytes:
        """Return the request as bytes."""
        chroot = self._chroot
        return b"".join([*(_SERIALIZERS[type(each)](each, chroot) for each in self._operations), _END])

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Committed | Aborted]:
        """Return the outcome, in a list because kazoo expects a list of results from a transaction."""
        versions: list[int] = []
        codes: list[int] = []
        header, integer = _HEADER.unpack_from, _INT.unpack_from
        kind, done, _ = header(answer, offset)
        while not done:
            offset += _HEADER.size
            version = -1
            if kind == SetDataRequest.type:
                (version,) = integer(answer, offset + _VERSION_IN_STAT)
                offset += _STAT_SIZE
            elif kind == CreateRequest.type:
                offset += _INT.size + integer(answer, offset)[0]
                version = 0
            elif kind == _ERROR:
                codes += integer(answer, offset)
                offset += _INT.size
            versions.append(version)
            kind, done, _ = header(answer, offset)
        zxid = zxid_of(answer)
        return [_aborted(zxid, codes) if codes else Committed(zxid, tuple(versions))]


def _aborted(zxid: int, codes: Sequence[int]) -> Aborted:
    """Return the outcome of codes: 0 before the failed operation (rolled back), RuntimeInconsistency after it."""
    failed = next((index for index, code in enumerate(codes) if code != OK), -1)
    return Aborted(zxid, failed, codes[failed])


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


_OPEN_ACL: Final = _INT.pack(len(OPEN_ACL_UNSAFE)) + b"".join(
    _INT.pack(acl.perms) + _string(acl.id.scheme) + _string(acl.id.id) for acl in OPEN_ACL_UNSAFE
)


# Serialized by hand: kazoo makes an object and a list of ACLs for each operation, of which there may be 100,000.


def _create(operation: Create, chroot: str) -> bytes:
    path, data, ephemeral, sequential = operation
    flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
    buffer = _INT.pack(-1) if data is None else _INT.pack(len(data)) + data
    return b"%b%b%b%b%b" % (_CREATE, _string(chroot + path), buffer, _OPEN_ACL, _INT.pack(flags))


def _set_data(operation: SetData, chroot: str) -> bytes:
    path, data, version = operation
    return b"%b%b%b%b%b" % (_SET_DATA, _string(chroot + path), _INT.pack(len(data)), data, _INT.pack(version))


def _delete(operation: Delete, chroot: str) -> bytes:
    path, version = operation
    return _DELETE + _string(chroot + path) + _INT.pack(version)


def _check(operation: CheckVersion, chroot: str) -> bytes:
    path, version = operation
    return _CHECK + _string(chroot + path) + _INT.pack(version)


_SERIALIZERS: Final[Mapping[type[Operation], Callable[[Any, str], bytes]]] = {
    Create: _create,
    SetData: _set_data,
    Delete: _delete,
    CheckVersion: _check,
}


def zxid_of(answer: bytes) -> int:
    """Return the zxid in the header of an answer."""
    zxid: int
    _, zxid, _ = _REPLY.unpack_from(answer, 0)
    return zxid


def node_of(data: bytes | None, stat: Sequence[int]) -> Znode:
    """Return a znode from its data and its stat."""
    czxid, _mzxid, _ctime, _mtime, version, _cversion, _aversion, owner, *_ = stat
    return Znode(data, version, czxid, owner)
