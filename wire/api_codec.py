"""Encode responses of the Kafka-protocol server from plain values, with the schema of exactly the request's version.

A response is sent exact or not at all, because a body that a broker cannot parse ends its JVM (``wire.md`` G-1).
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from wire.framing import RequestHeader
from wire.kio_codec import decode_request, encode_response, response_type

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
_LONGEST_TEXT: Final = 2**15 - 1
"""Bytes of a string: Kafka's own clients refuse a response with a longer one, in every version."""


@dataclass(frozen=True, slots=True)
class Request:
    """One frame, without its length, and the start of its header; the rest is decoded later."""

    head: RequestHeader
    frame: bytes


def entity_of(request: Request, *, may_follow: bytes = b"") -> Any:
    """Decode the kio entity of a request; the bytes ``may_follow`` behind it are ignored.

    :raises UnknownApi: no such version. :raises MalformedMessage: bad bytes.
    """
    return decode_request(request.frame, may_follow=may_follow).entity


def respond(head: RequestHeader, values: Mapping[str, object], *, version: int | None = None) -> bytes:
    """Encode the response to ``head`` (header and body, without the length) from plain values with kio's names.

    Values that this version does not have are left out; nested entities are mappings. ``version`` differs from the
    request's only for ApiVersions, whose refusal always has version 0.

    :raises TypeError, ValueError: a value is missing or does not fit; nothing may be sent then.
    """
    schema = response_type(head.api_key, head.version if version is None else version)
    return encode_response(head.correlation_id, fill(schema, values))


def fill(schema: Any, values: Mapping[str, object]) -> Any:
    """An entity of ``schema`` from plain values. :raises TypeError: a field has neither a value nor a default."""
    arguments: dict[str, object] = {}
    for name, convert, default in _plan(schema):
        if name in values:
            arguments[name] = convert(values[name])
        elif default is MISSING:
            raise TypeError(f"{schema.__module__}.{schema.__name__} needs {name}")
        else:
            arguments[name] = default
    return schema(**arguments)


@cache
def _plan(schema: Any) -> tuple[tuple[str, Callable[[Any], object], object], ...]:
    hints = get_type_hints(schema)
    return tuple((field.name, *_conversion(field.name, hints[field.name], field.default)) for field in fields(schema))


def _conversion(name: str, hint: Any, default: object) -> tuple[Callable[[Any], object], object]:
    if name == "throttle_time":
        return _same, NO_THROTTLE
    if name == "error_message":
        return _cut, default
    if hint is ErrorCode:
        return ErrorCode, default
    nested = _nested_type(hint)
    if nested is not None:
        return lambda items: None if items is None else tuple(fill(nested, item) for item in items), default
    return (tuple if get_origin(hint) is tuple else _same), default


def _nested_type(hint: Any) -> type[Any] | None:
    """The entity inside ``tuple[Entity, ...]`` or ``tuple[Entity, ...] | None``."""
    for inner in get_args(hint):
        if isinstance(inner, type) and is_dataclass(inner):
            return inner
        if (found := _nested_type(inner)) is not None:
            return found
    return None


def _cut(text: str | None) -> str | None:
    """Cut a text to the length of a string: it may contain a name from the client of the maximum length."""
    return None if text is None else text.encode()[:_LONGEST_TEXT].decode(errors="ignore")


def _same(value: object) -> object:
    return value


_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """A duration of a request in whole milliseconds; clients may send negative ones."""
    return duration // _MILLISECOND


def throttle(throttle_ms: int) -> i32Timedelta:
    """The throttle time of a response. :raises TypeError: it does not fit into 32 bits."""
    return i32Timedelta.parse(throttle_ms * _MILLISECOND)
