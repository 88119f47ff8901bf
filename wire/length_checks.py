"""Check the lengths in a message without tagged fields (before KIP-482), before kio decodes it.

kio accepts a string or bytes with a length below that of null, and moves its position back by that length. An array
that announces two thousand million of them would be read from the same few bytes until the memory is full.
"""

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from wire.primitives import Cursor
from wire.unknown_tags import SIZES

_Pass = Callable[[Cursor], object]
"""Passes over one value."""
_NULL: Final = -1


def check_lengths(kind: Any, body: bytes, offset: int) -> None:
    """Pass over a message of ``kind``, whose version is no flexible one.

    :raises MalformedMessage: a length is below that of null, or reaches beyond the end.
    """
    _structure(kind)(Cursor(body, offset))


@cache
def _structure(kind: Any) -> _Pass:
    steps = [_value(field, field.type) for field in fields(kind)]

    def pass_over(cursor: Cursor) -> None:
        for step in steps:
            step(cursor)

    return pass_over


def _value(field: "Field[Any]", kind: Any) -> _Pass:
    if get_origin(kind) is UnionType:
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return _value(field, inner)
    if get_origin(kind) is tuple:
        return _array(_value(field, get_args(kind)[0]))
    if isinstance(kind, type) and is_dataclass(kind):
        return _structure(kind)
    primitive = field.metadata["kafka_type"]
    if primitive in SIZES:
        return lambda cursor: cursor.take(SIZES[primitive])
    return _text if primitive == "string" else _bytes


def _array(item: _Pass) -> _Pass:
    def pass_over(cursor: Cursor) -> None:
        for _ in range(cursor.count()):
            item(cursor)

    return pass_over


def _text(cursor: Cursor) -> None:
    if (length := cursor.int16()) != _NULL:
        cursor.take(length)


def _bytes(cursor: Cursor) -> None:
    if (length := cursor.int32()) != _NULL:
        cursor.take(length)
