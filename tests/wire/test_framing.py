"""Frames and headers: valid messages, matching answers, and refusals."""

import asyncio
import struct
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from wire.errors import FrameTooLarge, MalformedMessage, NegativeFrame, TruncatedFrame
from wire.framing import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_frame,
    encode_request_header,
    encode_response_header,
    peek_request,
    read_frame,
)
from wire.primitives import uvarint
from wire.versions import ApiKey


async def read(data: bytes, limit: int = 100) -> bytes | None:
    """The frame read from a stream of these bytes."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_frame(reader, limit)


async def test_a_frame_is_read_as_it_was_written() -> None:
    assert await read(encode_frame(b"ab", b"", b"c")) == b"abc"


async def test_an_empty_frame_is_a_frame() -> None:
    assert await read(encode_frame(b"")) == b""


async def test_the_end_between_two_frames_is_no_error() -> None:
    assert await read(b"") is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xff\xff\xff\xff", NegativeFrame),
        (b"\0\0\0\x65" + bytes(101), FrameTooLarge),
        (b"GET / HTTP/1.1", FrameTooLarge),
        (b"\0\0", TruncatedFrame),
        (b"\0\0\0\x05abcd", TruncatedFrame),
        (b"\0\0\0\x05", TruncatedFrame),
    ],
)
async def test_an_invalid_frame_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        await read(data)


async def test_a_frame_of_exactly_the_limit_is_read() -> None:
    assert await read(encode_frame(bytes(100))) == bytes(100)


@given(key=st.sampled_from([*ApiKey]), version=st.integers(0, 20), correlation=st.integers(0, 2**31 - 1))
def test_a_request_header_survives_the_wire(key: ApiKey, version: int, correlation: int) -> None:
    header = RequestHeader(key, version, correlation, "client")
    if (key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0):
        header = header._replace(client_id=None)

    raw = encode_request_header(header)

    assert decode_request_header(raw + b"body") == (header, len(raw))
    assert peek_request(raw) == header._replace(client_id=None)


@pytest.mark.parametrize(("version", "kind"), [(8, HeaderV1), (9, HeaderV2)])
@pytest.mark.parametrize("client_id", [None, "", "größe"])
def test_a_request_header_is_encoded_as_by_kio(
    version: int, kind: type[HeaderV1 | HeaderV2], client_id: str | None
) -> None:
    entity = kind(request_api_key=i16(3), request_api_version=i16(version), correlation_id=i32(7), client_id=client_id)
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)

    assert encode_request_header(RequestHeader(ApiKey.METADATA, version, 7, client_id)) == buffer.getvalue()


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    raw = encode_request_header(RequestHeader(ApiKey.METADATA, 12, 7, "c"))[:-1] + b"\x01\x05\x02ab"

    assert decode_request_header(raw + b"body")[1] == len(raw)


def test_controlled_shutdown_version_0_has_no_client_id() -> None:
    assert len(encode_request_header(RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 7, "ignored"))) == 8


@pytest.mark.parametrize(
    ("key", "version", "size"),
    [
        (ApiKey.ALTER_PARTITION, 3, 5),
        (ApiKey.CONTROLLED_SHUTDOWN, 2, 4),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 5),
        (ApiKey.API_VERSIONS, 3, 4),
        (ApiKey.API_VERSIONS, 4, 4),
    ],
)
def test_a_response_header_has_tagged_fields_if_the_version_is_flexible_but_never_for_api_versions(
    key: ApiKey, version: int, size: int
) -> None:
    raw = encode_response_header(key, version, 7)

    assert len(raw) == size
    assert decode_response_header(raw, key, version) == (7, size)


@pytest.mark.parametrize(
    "raw", [b"", b"\0\x03\0\x0c\0\0\0", b"\0\x03\0\x0c\0\0\0\x07\0\x05ab", b"\0\x03\0\x0c\0\0\0\x07\0\0"]
)
def test_a_header_cut_short_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(raw)


@given(raw=st.binary(max_size=64))
def test_any_bytes_are_a_header_or_refused(raw: bytes) -> None:
    try:
        header, offset = decode_request_header(raw)
    except MalformedMessage:
        return
    assert offset <= len(raw)
    assert peek_request(raw).correlation_id == header.correlation_id


def test_a_header_with_too_many_tagged_fields_is_malformed() -> None:
    start = struct.pack(">hhih", 3, 9, 1, -1)
    assert decode_request_header(start + uvarint(1_000) + 1_000 * b"\5\0")[1] == 10 + 2 + 2_000
    with pytest.raises(MalformedMessage, match="1001 tagged fields"):
        decode_request_header(start + uvarint(1_001) + 1_001 * b"\5\0")
