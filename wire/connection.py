"""A client's connection to one broker, with one request in flight.

Every failure (timeout, network, malformed bytes) closes the connection, because the next response could belong to
another request. The caller opens a new connection.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version as installed_version
from typing import Final, Self

from controllerd.core.kafka_error import KafkaError
from wire.errors import CorrelationMismatch, HeldBack, MalformedMessage, PeerClosed, WireError
from wire.framing import (
    MAX_FRAME_BYTES,
    RequestHeader,
    decode_response_header,
    encode_request_header,
    frame_size,
    read_frame,
)
from wire.primitives import FLEXIBLE, Cursor
from wire.transport import PLAINTEXT, Link, Transport
from wire.versions import ApiKey, VersionRange

DEFAULT_TIMEOUT_S: Final = 30.0
"""Default of ``controller.socket.timeout.ms`` and ``request.timeout.ms``."""
_SOFTWARE: Final = "controllerd"
_API_VERSIONS: Final = 3


class KafkaConnection:
    """An open connection. Two tasks must not use it at once."""

    def __init__(
        self, link: Link, client_id: str, request_timeout_s: float, limit: int, may_send: Callable[[], bool]
    ) -> None:
        self._link = link
        self._may_send = may_send
        self._client_id = client_id
        self._timeout_s = request_timeout_s
        self._limit = limit
        self._correlation_id = 0
        self._open = True

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        client_id: str,
        *,
        connect_timeout_s: float = DEFAULT_TIMEOUT_S,
        request_timeout_s: float = DEFAULT_TIMEOUT_S,
        transport: Transport = PLAINTEXT,
        limit: int = MAX_FRAME_BYTES,
        may_send: Callable[[], bool] = lambda: True,
    ) -> Self:
        """Open a connection; ``limit`` is the largest size of a response in bytes.

        ``may_send`` is called before each part of a request is sent.

        :raises OSError: it cannot be opened (refused, unreachable, ``TimeoutError``).
        """
        async with asyncio.timeout(connect_timeout_s):
            link = await transport.open(host, port)
        return cls(link, client_id, request_timeout_s, limit, may_send)

    @property
    def is_open(self) -> bool:
        """Return whether another request may be tried; false also if the peer closed an idle connection."""
        return self._open and not self._link.ended()

    async def request(self, api_key: int, version: int, *body: bytes, correlation_id: int | None = None) -> bytes:
        """Send a request, part by part; return the body of the response.

        ``correlation_id`` repeats a request unchanged; by default the connection counts.

        :raises TimeoutError: no answer in time. :raises OSError: the connection broke. :raises WireError: the peer
            closed it, or its answer is no answer to this. Either way the connection is closed then, and also when the
            caller is cancelled: an answer that is still in progress must not meet the next request.
        """
        if not self._open:
            raise PeerClosed("the connection was closed before")
        if correlation_id is None:
            self._correlation_id += 1
            correlation_id = self._correlation_id
        answered = False
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._exchange(RequestHeader(api_key, version, correlation_id, self._client_id), body)
            answered = True
            return answer
        finally:
            if not answered:
                self.abort()

    async def _exchange(self, header: RequestHeader, body: tuple[bytes, ...]) -> bytes:
        start = encode_request_header(header)
        for part in (frame_size(start, *body) + start, *body):
            if not self._may_send():
                raise HeldBack("a request, or the rest of one, was held back")
            self._link.write(part)
            await self._link.drain()  # after each: what the socket does not take is copied into a buffer
        frame = await read_frame(self._link, self._limit)
        if frame is None:
            raise PeerClosed("the peer closed the connection instead of answering")
        correlation_id, offset = decode_response_header(frame, header.api_key, header.version)
        if correlation_id != header.correlation_id:
            raise CorrelationMismatch(f"answer to {correlation_id}, but {header.correlation_id} was asked")
        return frame[offset:]

    async def api_versions(self) -> Mapping[int, VersionRange]:
        """Return the API versions of the peer, by version 3, or version 0 for peers that do not know it (KIP-511).

        :raises WireError: the peer refuses; otherwise as ``request``.
        """
        ask = FLEXIBLE.string(_SOFTWARE) + FLEXIBLE.string(_software_version()) + FLEXIBLE.tags
        answer = await self.request(ApiKey.API_VERSIONS, _API_VERSIONS, ask)
        if Cursor(answer).int16() != KafkaError.UNSUPPORTED_VERSION:
            return self._read_api_versions(answer, flexible=True)
        return self._read_api_versions(await self.request(ApiKey.API_VERSIONS, 0), flexible=False)

    def _read_api_versions(self, answer: bytes, *, flexible: bool) -> dict[int, VersionRange]:
        try:
            return decode_api_versions(answer, flexible=flexible)
        except WireError:
            self.abort()
            raise

    def abort(self) -> None:
        """Close at once; buffered bytes are never sent."""
        self._open = False
        self._link.abort()

    async def close(self) -> None:
        """Close and wait until the socket is closed."""
        self.abort()
        await self._link.wait_closed()


@cache
def _software_version() -> str:
    """Read from a file once, not for every connection."""
    return installed_version(_SOFTWARE)


def decode_api_versions(answer: bytes, *, flexible: bool) -> dict[int, VersionRange]:
    """Decode the body of an ApiVersions response, version 0 or 3. :raises MalformedMessage: it is none, or an error."""
    cursor = Cursor(answer, flexible=flexible)
    error = cursor.int16()
    if error != KafkaError.NONE:
        raise MalformedMessage(f"ApiVersions was answered by error {error}")
    versions = {}
    for _ in range(cursor.count()):
        api_key = cursor.int16()
        versions[api_key] = VersionRange(cursor.int16(), cursor.int16())
        cursor.skip_tags()
    if flexible:
        cursor.int32()
        cursor.skip_tags()
    cursor.end()
    return versions
