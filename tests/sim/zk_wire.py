"""ZooKeeper's wire format from the server's side: requests from bytes, responses to bytes.

Only the requests of the production code. Creations carry the open ACL, as everywhere in an open cluster; another ACL is
kept as the bytes that came, and returned by getACL.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kazoo.security import OPEN_ACL_UNSAFE

from controllerd.zk.access import OK, RUNTIME_INCONSISTENCY, CheckVersion, Create, Delete, Operation, SetData
from tests.sim.zk_tree import Change, Refused, Tree, Znode

CREATE: Final = 1
DELETE: Final = 2
EXISTS: Final = 3
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_ACL: Final = 6
GET_CHILDREN: Final = 8
SYNC: Final = 9
CHECK: Final = 13
MULTI: Final = 14
MULTI_READ: Final = 22
SET_WATCHES: Final = 101
CLOSE: Final = -11
ERROR: Final = -1

UNIMPLEMENTED: Final = -6
WATCH_XID: Final = -1
_CONNECTED: Final = 3
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2

_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_TWO_INTS: Final = struct.Struct("!ii")
_HEADER: Final = struct.Struct("!iBi")
_REPLY: Final = struct.Struct("!iqi")
_READ: Final = _HEADER.pack(GET_DATA, 0, -1)
_END: Final = _HEADER.pack(ERROR, 1, -1)


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


def _buffer(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


OPEN_ACL: Final = _INT.pack(len(OPEN_ACL_UNSAFE)) + b"".join(
    _INT.pack(acl.perms) + _string(acl.id.scheme) + _string(acl.id.id) for acl in OPEN_ACL_UNSAFE
)


class Unsupported(Exception):
    """The model does not implement this request."""


class Parsed(NamedTuple):
    """The operations of a write, and the ACLs other than the open one, by path."""

    operations: list[Operation]
    acls: dict[str, bytes]


def head_of(message: bytes) -> tuple[int, int]:
    """The xid and the opcode of a request; the body begins at 8."""
    xid, kind = _TWO_INTS.unpack_from(message, 0)
    return xid, kind


def read_string(body: bytes, offset: int) -> tuple[str, int]:
    """Read a string; return it and the offset behind it. Null is the empty string."""
    (length,) = _INT.unpack_from(body, offset)
    start = offset + 4
    return (body[start : start + length].decode(), start + length) if length > 0 else ("", start)


def _read_buffer(body: bytes, offset: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(body, offset)
    start = offset + 4
    return (None, start) if length < 0 else (body[start : start + length], start + length)


def _end_of_acl(body: bytes, offset: int) -> int:
    if body.startswith(OPEN_ACL, offset):
        return offset + len(OPEN_ACL)
    (count,) = _INT.unpack_from(body, offset)
    offset += 4
    for _ in range(count):
        _, offset = read_string(body, offset + 4)
        _, offset = read_string(body, offset)
    return offset


def _read_operation(kind: int, body: bytes, offset: int, acls: dict[str, bytes]) -> tuple[Operation, int]:
    path, offset = read_string(body, offset)
    if kind == CREATE:
        data, offset = _read_buffer(body, offset)
        end = _end_of_acl(body, offset)
        if not body.startswith(OPEN_ACL, offset):
            acls[path] = body[offset:end]
        (flags,) = _INT.unpack_from(body, end)
        if flags & ~(_EPHEMERAL | _SEQUENTIAL):
            raise Unsupported(f"creation with flags {flags}")
        return Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL)), end + 4
    if kind == SET_DATA:
        data, offset = _read_buffer(body, offset)
        (version,) = _INT.unpack_from(body, offset)
        return SetData(path, data or b"", version), offset + 4
    (version,) = _INT.unpack_from(body, offset)
    return (Delete if kind == DELETE else CheckVersion)(path, version), offset + 4


def read_write(kind: int, body: bytes, offset: int) -> Parsed:
    """Read a create, delete, setData or multi."""
    acls: dict[str, bytes] = {}
    if kind != MULTI:
        return Parsed([_read_operation(kind, body, offset, acls)[0]], acls)
    operations: list[Operation] = []
    kind, done, _ = _HEADER.unpack_from(body, offset)
    while not done:
        if kind not in {CREATE, DELETE, SET_DATA, CHECK}:
            raise Unsupported(f"operation {kind} in a multi")
        operation, offset = _read_operation(kind, body, offset + 9, acls)
        operations.append(operation)
        kind, done, _ = _HEADER.unpack_from(body, offset)
    return Parsed(operations, acls)


def read_multi_read(body: bytes, offset: int) -> list[str]:
    """Read the paths of a MultiRead of data."""
    paths: list[str] = []
    kind, done, _ = _HEADER.unpack_from(body, offset)
    while not done:
        if kind != GET_DATA:
            raise Unsupported(f"operation {kind} in a MultiRead")
        path, offset = read_string(body, offset + 9)
        paths.append(path)
        kind, done, _ = _HEADER.unpack_from(body, offset + 1)
        offset += 1
    return paths


def read_set_watches(body: bytes, offset: int) -> tuple[int, list[list[str]]]:
    """Read the relative zxid, and the paths of data, exist and child watches."""
    (zxid,) = _LONG.unpack_from(body, offset)
    offset += 8
    families: list[list[str]] = []
    for _ in range(3):
        (count,) = _INT.unpack_from(body, offset)
        offset += 4
        paths = []
        for _ in range(count):
            path, offset = read_string(body, offset)
            paths.append(path)
        families.append(paths)
    return zxid, families


def reply(xid: int, zxid: int, code: int = OK, body: bytes = b"") -> bytes:
    """A response; one with an error has no body."""
    return _REPLY.pack(xid, zxid, code) + body


def event(kind: int, path: str) -> bytes:
    """A watch event."""
    return _REPLY.pack(WATCH_XID, -1, OK) + _TWO_INTS.pack(kind, _CONNECTED) + _string(path)


def data_of(node: Znode) -> bytes:
    """The body of a getData response."""
    return _buffer(node.data) + node.stat()


def names_of(node: Znode) -> bytes:
    """The body of a getChildren response."""
    return _INT.pack(len(node.children)) + b"".join(map(_string, node.children))


def acl_of(acl: bytes, node: Znode) -> bytes:
    """The body of a getACL response."""
    return acl + node.stat()


def path_of(path: str) -> bytes:
    """The body of a sync or create response."""
    return _string(path)


def nodes_of(nodes: Iterable[Znode | None], missing: int) -> bytes:
    """The body of a MultiRead response: data, or the code for each missing znode."""
    absent = _error(missing)
    return b"".join((*(absent if node is None else _READ + data_of(node) for node in nodes), _END))


def _error(code: int) -> bytes:
    return _HEADER.pack(ERROR, 0, code) + _INT.pack(code)


def results_of(operations: Sequence[Operation], result: tuple[Change, ...] | Refused, tree: Tree) -> bytes:
    """The body of a multi response. A refused one names the reason once: 0 before it, RuntimeInconsistency after it."""
    if isinstance(result, Refused):
        before, after = _error(OK) * result.at, len(operations) - result.at - 1
        return before + _error(result.code) + _error(RUNTIME_INCONSISTENCY) * after + _END
    return b"".join((*(_result(change, tree) for change in result), _END))


def _result(change: Change, tree: Tree) -> bytes:
    if change.op == "create":
        return _HEADER.pack(CREATE, 0, -1) + _string(change.path)
    if change.op == "setData":
        return _HEADER.pack(SET_DATA, 0, -1) + stat_of(change, tree)
    return _HEADER.pack(DELETE if change.op == "delete" else CHECK, 0, -1)


def stat_of(change: Change, tree: Tree) -> bytes:
    """The stat as of that change, though a later one of the same multi may have changed or deleted the znode."""
    node = tree.nodes.get(change.path) or Znode(None, 0, 0, 0)
    return node.stat_at(change.version, change.data)
