"""Requests as kio writes them and answers as kio reads them: the peer of our codecs."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from kio.static.primitive import i32Timedelta

from tests.api.cluster import new_request
from wire.api_codec import Request
from wire.framing import RequestHeader, peek_request
from wire.kio_codec import decode_response, encode_request, encode_response

CORRELATION_ID: Final = 7
_BEFORE_CLIENT_ID: Final = 8
"""The bytes of key, version and correlation id, with which every request begins."""


def asked(api_key: int, version: int, **values: object) -> Request:
    """A request that a client wrote with kio; a field without a value gets a default of its type."""
    return as_request(encode_request(CORRELATION_ID, "test", new_request(api_key, version, values)))


def as_request(frame: bytes) -> Request:
    return Request(peek_request(frame), frame)


def head(api_key: int, version: int) -> RequestHeader:
    return RequestHeader(api_key, version, CORRELATION_ID, None)


def ms(number: int) -> i32Timedelta:
    """A duration as kio has it."""
    return i32Timedelta.parse(timedelta(milliseconds=number))


def read_back(api_key: int, version: int, answer: bytes) -> Any:
    """The kio entity of an answer, which must be exactly what kio would have written."""
    correlation_id, entity = decode_response(api_key, version, answer)
    assert correlation_id == CORRELATION_ID
    assert encode_response(correlation_id, entity) == answer, "kio would have written other bytes"
    return entity


def damaged(request: Request) -> Iterator[Request]:
    """The same request cut off at every byte of client id and body, and with one byte too many."""
    for end in range(_BEFORE_CLIENT_ID, len(request.frame)):
        yield as_request(request.frame[:end])
    yield as_request(request.frame + b"\0")
