"""Envelope (KIP-590): a client's request that a broker passes on to the controller, with the client's identity.

Brokers that wait for a migration to KRaft wrap the requests of operators, and of their own for topics
that they create.
"""

import ipaddress
from dataclasses import fields, is_dataclass
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from wire.api_codec import Request, entity_of, respond
from wire.errors import MalformedMessage, WireError
from wire.framing import RequestHeader, peek_request
from wire.kio_codec import decode_response
from wire.primitives import Cursor

_PRINCIPAL_VERSION: Final = 0


class ForwardedPrincipal(NamedTuple):
    """The identity that the client proved to the broker (``DefaultPrincipalData`` of ``KafkaPrincipalSerde``)."""

    kind: str
    name: str


class ForwardedRequest(NamedTuple):
    """A request out of an envelope, from a client at an address that is not the connection's."""

    request: Request
    principal: ForwardedPrincipal
    address: str


class UnreadableEnvelope(WireError):
    """An envelope that follows its schema and whose content cannot be read; ``code`` answers its sender."""

    def __init__(self, code: KafkaError, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def decode_envelope(request: Request) -> ForwardedRequest:
    """Read a request.

    :raises MalformedMessage: bad bytes. :raises UnreadableEnvelope: principal, address or request cannot be read.
    """
    entity = entity_of(request)
    principal = _principal(entity.request_principal)
    address = _address(entity.client_host_address)
    try:
        head = peek_request(entity.request_data)
    except MalformedMessage as error:
        raise UnreadableEnvelope(KafkaError.UNSUPPORTED_VERSION, f"request: {error}") from error
    return ForwardedRequest(Request(head, entity.request_data), principal, address)


def encode_envelope(head: RequestHeader, response: bytes) -> bytes:
    """The response to a forwarded request, its header included."""
    return respond(head, {"error_code": KafkaError.NONE, "response_data": response})


def encode_envelope_error(head: RequestHeader, error: KafkaError) -> bytes:
    """The refusal of the envelope itself; no client sees its code (``ForwardingManager``)."""
    return respond(head, {"error_code": error, "response_data": None})


def says_not_controller(head: RequestHeader, response: bytes) -> bool:
    """Return whether a response refuses anything because another instance is the controller."""
    _, entity = decode_response(head.api_key, head.version, response)
    return _has_error(entity, KafkaError.NOT_CONTROLLER)


def _has_error(value: object, error: KafkaError) -> bool:
    if isinstance(value, tuple):
        return any(_has_error(each, error) for each in value)
    if not is_dataclass(value):
        return False
    rows = ((field.name, getattr(value, field.name)) for field in fields(value))
    return any(each == error if name == "error_code" else _has_error(each, error) for name, each in rows)


def _principal(serialized: bytes | None) -> ForwardedPrincipal:
    cursor = Cursor(serialized or b"", flexible=True)
    try:
        version, kind, name = cursor.int16(), cursor.string(), cursor.string()
    except MalformedMessage as error:
        raise UnreadableEnvelope(KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE, f"principal: {error}") from error
    if version != _PRINCIPAL_VERSION:
        raise UnreadableEnvelope(KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE, f"principal of version {version}")
    return ForwardedPrincipal(kind, name)


def _address(packed: bytes) -> str:
    try:
        return str(ipaddress.ip_address(packed))
    except ValueError as error:
        raise UnreadableEnvelope(KafkaError.INVALID_REQUEST, f"address: {error}") from error
