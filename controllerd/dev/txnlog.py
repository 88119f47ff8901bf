"""Read ZooKeeper's transaction log: the writes of each session, as the server logged them.

The format is that of ``FileTxnLog`` of ZooKeeper 3.6 and later: a file header, then per transaction a checksum, a
length, the record in jute encoding and an end mark; the rest of the preallocated file is zeros.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

from controllerd.zk.access import code_name

_MAGIC: Final = b"ZKLG"
_FILE_HEADER: Final = 16
_RECORD_START: Final = struct.Struct(">qi")
_TRANSACTION: Final = struct.Struct(">qiqqi")
_INT: Final = struct.Struct(">i")
_END_MARK: Final = b"B"


class _Kind(IntEnum):
    """The types of transactions that are decoded."""

    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    ERROR = -1
    CLOSE_SESSION = -11


@dataclass(frozen=True, slots=True)
class Logged:
    """One operation. ``version`` is the version of the znode afterwards (setData), or the expected one (check)."""

    op: str
    path: str = ""
    data: bytes | None = None
    version: int | None = None
    ephemeral: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """One transaction of one session, all or nothing."""

    session_id: int
    zxid: int
    operations: tuple[Logged, ...]
    time_ms: int = field(default=0, compare=False)
    """The time at which the leader of the ensemble received it: milliseconds since the Unix epoch, by its clock."""
    size: int = field(default=0, compare=False)
    """Bytes of the record in the log."""

    @property
    def was_refused(self) -> bool:
        """Whether it had no effect. The operations before the failed one are logged all the same."""
        return any(operation.error is not None for operation in self.operations)


class TransactionLog:
    """The log of a running server. It can be read repeatedly; a transaction is logged before it is answered."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is the server's ``dataDir``."""
        self._directory = directory / "version-2"
        self._offsets: dict[Path, int] = {}

    def read_new(self) -> list[LoggedTransaction]:
        """Return the transactions since the last call."""
        return [found for path in sorted(self._directory.glob("log.*"), key=_first_zxid) for found in self._tail(path)]

    def _tail(self, path: Path) -> Iterator[LoggedTransaction]:
        offset = self._offsets.get(path, 0)
        with path.open("rb") as file:
            if offset == 0:
                header = file.read(_FILE_HEADER)
                if len(header) < _FILE_HEADER:
                    return
                assert header.startswith(_MAGIC), f"{path.name} is no transaction log"
                offset = _FILE_HEADER
            file.seek(offset)
            content = file.read()
        for end, record in _records(content):
            self._offsets[path] = offset + end
            yield transaction(record)


def _first_zxid(path: Path) -> int:
    return int(path.suffix.removeprefix("."), 16)


def _records(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield complete records with the offsets behind them; an incomplete one is left for the next call."""
    at = 0
    while at + _RECORD_START.size <= len(content):
        _, length = _RECORD_START.unpack_from(content, at)
        start = at + _RECORD_START.size
        at = start + length + len(_END_MARK)
        if length == 0 or content[at - 1 : at] != _END_MARK:
            return
        yield at, content[start : at - 1]


def transaction(record: bytes) -> LoggedTransaction:
    """Decode a record of the log; a digest that may follow it is ignored."""
    session_id, _, zxid, time_ms, kind = _TRANSACTION.unpack_from(record)
    body = _Jute(record, _TRANSACTION.size)
    operations = tuple(_parts(body)) if kind == _Kind.MULTI else tuple(_operation(kind, body))
    return LoggedTransaction(session_id, zxid, operations, time_ms, len(record))


def _parts(body: "_Jute") -> Iterator[Logged]:
    for _ in range(body.int()):
        kind = body.int()
        yield from _operation(kind, _Jute(body.buffer() or b"", 0))


def _operation(kind: int, body: "_Jute") -> Iterator[Logged]:
    match kind:
        case _Kind.CREATE | _Kind.CREATE_2:
            path, data = body.string(), body.buffer()
            body.skip_acl()
            yield Logged("create", path, data, ephemeral=body.boolean())
        case _Kind.DELETE:
            yield Logged("delete", body.string())
        case _Kind.SET_DATA:
            yield Logged("setData", body.string(), body.buffer(), body.int())
        case _Kind.CHECK:
            yield Logged("check", body.string(), version=body.int() - 1)  # the log holds the next version
        case _Kind.ERROR:
            yield Logged("refused", error=code_name(body.int()))
        case _Kind.CLOSE_SESSION:
            yield Logged("closeSession")
        case _:
            return  # the beginning of a session, or ACLs: they are not compared


class _Jute:
    """ZooKeeper's serialization: big-endian numbers, strings and buffers behind their length."""

    def __init__(self, content: bytes, offset: int) -> None:
        self._content = content
        self._offset = offset

    def int(self) -> int:
        (value,) = _INT.unpack_from(self._content, self._offset)
        self._offset += _INT.size
        return int(value)

    def boolean(self) -> bool:
        self._offset += 1
        return self._content[self._offset - 1] != 0

    def buffer(self) -> bytes | None:
        length = self.int()
        if length < 0:
            return None
        self._offset += length
        return self._content[self._offset - length : self._offset]

    def string(self) -> str:
        return (self.buffer() or b"").decode()

    def skip_acl(self) -> None:
        for _ in range(max(0, self.int())):
            self.int()
            self.string()
            self.string()
