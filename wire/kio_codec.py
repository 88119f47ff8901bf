"""The generic codec: any API and version as typed entities, for everything that is not hot.

A thin layer over kio, which generates its entities from Kafka's own message definitions.
"""

import struct
from functools import cache
from io import BytesIO
from typing import Final, NamedTuple, TypeVar

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.protocol import Payload, RequestPayload, ResponsePayload

from wire.errors import MalformedMessage, UnknownApi
from wire.framing import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from wire.length_checks import check_lengths
from wire.unknown_tags import without_unknown_tags

E = TypeVar("E", bound=Payload)

# What kio raises on bytes that do not follow the schema; an unknown error code is a ValueError.
_UNREADABLE: Final = (SerialError, ValueError, TypeError, OverflowError, struct.error)


class DecodedRequest(NamedTuple):
    """A request as it came: header and entity of exactly the version that the header names."""

    header: RequestHeader
    entity: RequestPayload


@cache
def request_type(api_key: int, version: int) -> type[RequestPayload]:
    """The entity class of a request. :raises UnknownApi: there is none."""
    try:
        return load_request_schema(api_key, version)
    except KioIndexError as error:
        raise UnknownApi(f"no request schema for API {api_key} version {version}") from error


@cache
def response_type(api_key: int, version: int) -> type[ResponsePayload]:
    """The entity class of a response. :raises UnknownApi: there is none."""
    try:
        return load_response_schema(api_key, version)
    except KioIndexError as error:
        raise UnknownApi(f"no response schema for API {api_key} version {version}") from error


def encode_entity(entity: Payload) -> bytes:
    """The body of a request or response, without header."""
    with BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def decode_entity(kind: type[E], body: bytes, offset: int = 0, *, may_follow: bytes = b"") -> E:
    """An entity from the rest of a message; tagged fields that its schema does not know are passed over (KIP-482).

    ``may_follow`` is what some peer is known to send behind it.

    :raises MalformedMessage: the bytes do not follow the schema exactly.
    """
    try:
        return _decode(kind, body, offset, may_follow)
    except KeyError:  # kio does not know the tag
        return _decode(kind, without_unknown_tags(kind, body, offset), 0, may_follow)


def _decode(kind: type[E], body: bytes, offset: int, may_follow: bytes) -> E:
    if not kind.__flexible__:
        check_lengths(kind, body, offset)
    try:
        entity, size = entity_reader(kind)(body, offset)
    except _UNREADABLE as error:
        raise MalformedMessage(f"{kind.__name__} version {kind.__version__}: {error!r}") from error
    if offset + size != len(body) and body[offset + size :] != may_follow:
        raise MalformedMessage(f"{kind.__name__}: {len(body) - offset - size} bytes too many")
    return entity


def decode_request(frame: bytes, *, may_follow: bytes = b"") -> DecodedRequest:
    """A request from the content of a frame; ``may_follow`` as in ``decode_entity``.

    :raises UnknownApi: no such API or version. :raises MalformedMessage: the bytes do not follow the schema.
    """
    header, offset = decode_request_header(frame)
    kind = request_type(header.api_key, header.version)
    return DecodedRequest(header, decode_entity(kind, frame, offset, may_follow=may_follow))


def encode_response(correlation_id: int, entity: ResponsePayload) -> bytes:
    """The content of the frame that answers a request; the entity has exactly the version of the request."""
    return encode_response_header(entity.__api_key__, entity.__version__, correlation_id) + encode_entity(entity)


def encode_request(correlation_id: int, client_id: str | None, entity: RequestPayload) -> bytes:
    """The content of the frame that asks."""
    header = RequestHeader(entity.__api_key__, entity.__version__, correlation_id, client_id)
    return encode_request_header(header) + encode_entity(entity)


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, ResponsePayload]:
    """Correlation id and entity of the answer to a request of this API and version.

    :raises MalformedMessage: the bytes do not follow the schema.
    """
    correlation_id, offset = decode_response_header(frame, api_key, version)
    return correlation_id, decode_entity(response_type(api_key, version), frame, offset)
