"""Frames and headers: the bounds of messages on a connection, and the request that a response belongs to."""

import asyncio
import struct
from typing import Final, NamedTuple, Protocol

from wire.errors import FrameTooLarge, NegativeFrame, TruncatedFrame
from wire.primitives import CLASSIC, INT32, Cursor
from wire.versions import request_header_version, response_header_version

MAX_FRAME_BYTES: Final = 100 * 2**20
"""Default of ``socket.request.max.bytes``."""
_REQUEST_START: Final = struct.Struct(">hhi")


class ExactReader(Protocol):
    """A source of frames, such as ``asyncio.StreamReader``."""

    async def readexactly(self, n: int, /) -> bytes:
        """Exactly ``n`` bytes. :raises asyncio.IncompleteReadError: the stream ended before."""
        ...


class RequestHeader(NamedTuple):
    """The header of a request, whatever its version."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None = None


async def read_frame(reader: ExactReader, limit: int = MAX_FRAME_BYTES) -> bytes | None:
    """Read the content of the next frame; None if the stream ends between two frames.

    :raises NegativeFrame: the announced size is below zero.
    :raises FrameTooLarge: it is beyond ``limit`` bytes; nothing more was read.
    :raises TruncatedFrame: the stream ended inside the frame.
    """
    try:
        (size,) = INT32.unpack(await reader.readexactly(INT32.size))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise TruncatedFrame("the stream ended inside the size of a frame") from error
        return None
    if size < 0:
        raise NegativeFrame(f"frame of {size} bytes")
    if size > limit:
        raise FrameTooLarge(f"frame of {size} bytes, limit {limit}")
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise TruncatedFrame(f"the stream ended after {len(error.partial)} of {size} bytes") from error


def frame_size(*parts: bytes) -> bytes:
    """The size field of a frame with this content."""
    return INT32.pack(sum(map(len, parts)))


def encode_frame(*parts: bytes) -> bytes:
    """A whole frame with this content."""
    return frame_size(*parts) + b"".join(parts)


def encode_request_header(header: RequestHeader) -> bytes:
    """Encode the header in the form of its API and version."""
    start = _REQUEST_START.pack(header.api_key, header.version, header.correlation_id)
    match request_header_version(header.api_key, header.version):
        case 0:
            return start
        case 1:
            return start + CLASSIC.nullable_string(header.client_id)
        case _:
            return start + CLASSIC.nullable_string(header.client_id) + b"\0"


def peek_request(frame: bytes) -> RequestHeader:
    """Decode API key, version and correlation id, which all header versions share. The client id is None.

    :raises MalformedMessage: the frame is shorter than that.
    """
    api_key, version, correlation_id = _REQUEST_START.unpack(Cursor(frame).take(_REQUEST_START.size))
    return RequestHeader(api_key, version, correlation_id)


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header of a request and the offset of its body. :raises MalformedMessage: it does not follow its schema."""
    header = peek_request(frame)
    header_version = request_header_version(header.api_key, header.version)
    cursor = Cursor(frame, _REQUEST_START.size, flexible=header_version == 2)
    if header_version > 0:
        header = header._replace(client_id=cursor.classic_nullable_string())
    cursor.skip_tags()
    return header, cursor.offset


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header of the answer to a request of this API and version."""
    return INT32.pack(correlation_id) + (b"\0" if response_header_version(api_key, version) else b"")


def decode_response_header(frame: bytes, api_key: int, version: int) -> tuple[int, int]:
    """Correlation id, and the offset of the body. :raises MalformedMessage: it does not follow its schema."""
    cursor = Cursor(frame, flexible=response_header_version(api_key, version) == 1)
    correlation_id = cursor.int32()
    cursor.skip_tags()
    return correlation_id, cursor.offset
