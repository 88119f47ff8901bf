"""Remove unknown tagged fields from a message, because a newer peer may send them (KIP-482).

They may be added to a message without a new version, and a reader has to skip unknown ones; kio refuses them instead.
Only messages of flexible versions have tagged fields.
"""

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from wire.primitives import Cursor, uvarint

SIZES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
    **dict.fromkeys(("int16", "uint16", "error_code"), 2),
    **dict.fromkeys(("int32", "uint32", "timedelta_i32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "timedelta_i64", "datetime_i64"), 8),
    "uuid": 16,
}
"""Bytes of each type of fixed length; all others are strings or bytes behind their length."""


def without_unknown_tags(kind: type[Any], body: bytes, offset: int = 0) -> bytes:
    """The message from ``offset`` on, and what is behind it, with no tagged fields but those of ``kind``.

    :raises MalformedMessage: the bytes do not follow the schema.
    """
    if not kind.__flexible__:
        return body[offset:]
    cursor = Cursor(body, offset, flexible=True)
    return _structure(kind, cursor) + body[cursor.offset :]


def _structure(kind: type[Any], cursor: Cursor) -> bytes:
    tagged = {field.metadata["tag"]: field for field in fields(kind) if "tag" in field.metadata}
    plain = [_value(field, field.type, cursor) for field in fields(kind) if "tag" not in field.metadata]
    return b"".join((*plain, _tags(tagged, cursor)))


def _tags(tagged: Mapping[int, "Field[Any]"], cursor: Cursor) -> bytes:
    kept: list[bytes] = []
    for _ in range(cursor.uvarint()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        data = cursor.take(size)
        if tag in tagged:
            kept.append(_tag(tag, tagged[tag], data))
    return uvarint(len(kept)) + b"".join(kept)


def _tag(tag: int, field: "Field[Any]", data: bytes) -> bytes:
    cursor = Cursor(data, flexible=True)
    value = _value(field, field.type, cursor)
    cursor.end()
    return uvarint(tag) + uvarint(len(value)) + value


def _value(field: "Field[Any]", kind: Any, cursor: Cursor) -> bytes:
    if get_origin(kind) is UnionType:
        return _nullable(field, kind, cursor)
    if get_origin(kind) is tuple:
        length = cursor.uvarint()
        items = (_value(field, get_args(kind)[0], cursor) for _ in range(length - 1))
        return uvarint(length) + b"".join(items)
    if isinstance(kind, type) and is_dataclass(kind):
        return _structure(kind, cursor)
    return _primitive(field.metadata["kafka_type"], cursor)


def _nullable(field: "Field[Any]", kind: Any, cursor: Cursor) -> bytes:
    """Return whether a value has a byte that says whether it is present; only structures have (KIP-893)."""
    (inner,) = (each for each in get_args(kind) if each is not NoneType)
    if not is_dataclass(inner):
        return _value(field, inner, cursor)
    marker = cursor.take(1)
    return marker if marker == b"\xff" else marker + _value(field, inner, cursor)


def _primitive(kind: str, cursor: Cursor) -> bytes:
    if kind in SIZES:
        return cursor.take(SIZES[kind])
    length = cursor.uvarint()
    return uvarint(length) + (cursor.take(length - 1) if length else b"")
