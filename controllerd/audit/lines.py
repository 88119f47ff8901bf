"""One line of the audit log: the envelope and the record as JSON, and the hash that chains it to the next line."""

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from controllerd.record.envelope import Envelope, UnknownRecord
from controllerd.record.kinds import KINDS
from controllerd.record.records import SCHEMA_VERSION, AlarmRecord, Record

GENESIS: Final = "0" * 64
"""``prev`` of the first line of a directory."""


class Head(NamedTuple):
    """The newest written line. A copy of it outside the log shows later whether the log was cut or rewritten."""

    boot: str
    seq: int
    hash: str


class BadLine(ValueError):
    """Raised for bytes that are no line of the audit log."""


class _Line(msgspec.Struct):
    """A line in the form in which it is written. The order of the fields is their order in the line."""

    v: int
    kind: str
    cluster: str
    node: int
    boot: str
    seq: int
    epoch: int
    event: int
    ts_ms: int
    mono_ns: int
    prev: str
    data: Any


class AuditEntry(_Line, gc=False):
    """A line that was read: the fields of its envelope, and the record as bytes, which are decoded by kind later."""

    data: msgspec.Raw

    @property
    def envelope(self) -> Envelope:
        """The envelope alone, as the fold takes it."""
        return Envelope(
            self.v,
            self.kind,
            self.cluster,
            self.node,
            self.boot,
            self.seq,
            self.epoch,
            self.event,
            self.ts_ms,
            self.mono_ns,
            self.prev,
        )


def digest(line: bytes) -> str:
    """The hash of a line without its newline, as the next line's ``prev`` carries it."""
    return hashlib.sha256(line).hexdigest()


def _plain(value: object) -> object:
    """The JSON of values that details and configurations may hold; other values become their ``str``."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return list(value)
    return value.value if isinstance(value, Enum) else str(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)
_DECODER: Final = msgspec.json.Decoder(AuditEntry)


def encode_line(envelope: Envelope, record: Record) -> bytes:
    """The line without newline.

    A record that cannot be encoded becomes an alarm record with the cause, so that the loss is visible.
    """
    try:
        return _encode(envelope, record)
    except (TypeError, ValueError, OverflowError) as problem:
        detail = f"{record.kind}: {problem}".encode(errors="backslashreplace").decode()
        return _encode(envelope, AlarmRecord("a record could not be encoded", detail))


def _encode(envelope: Envelope, record: Record) -> bytes:
    return _ENCODER.encode(
        _Line(
            SCHEMA_VERSION,
            record.kind,
            envelope.cluster,
            envelope.node,
            envelope.boot,
            envelope.seq,
            envelope.epoch,
            envelope.event,
            envelope.ts_ms,
            envelope.mono_ns,
            envelope.prev,
            record,
        )
    )


def decode_line(line: bytes) -> AuditEntry:
    """Decode the envelope of a line and keep its record as bytes. :raises BadLine: damaged bytes."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadLine(str(problem)) from None


def decode_lines(lines: Sequence[bytes]) -> list[AuditEntry]:
    """Decode many lines, which is faster than one by one. :raises BadLine: one of them is damaged."""
    try:
        return list(map(_DECODER.decode, lines))
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadLine(str(problem)) from None


@cache
def _record_decoder(kind: str) -> msgspec.json.Decoder[Record] | None:
    return msgspec.json.Decoder(KINDS[kind]) if kind in KINDS else None


def decode_record(kind: str, data: msgspec.Raw) -> Record:
    """Decode a record. Ignores unknown fields; returns ``UnknownRecord`` for an unknown kind. :raises BadLine:"""
    decoder = _record_decoder(kind)
    if decoder is None:
        return UnknownRecord(kind)
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadLine(f"{kind}: {problem}") from None
