"""A client connection against a server on a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from kio.schema.api_versions.v0.response import ApiVersion as ApiVersionV0
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta

from wire.connection import KafkaConnection
from wire.errors import (
    CorrelationMismatch,
    FrameTooLarge,
    HeldBack,
    MalformedMessage,
    PeerClosed,
    TruncatedFrame,
    WireError,
)
from wire.framing import decode_request_header, encode_frame, encode_response_header, read_frame
from wire.kio_codec import decode_request, encode_response
from wire.versions import ApiKey, VersionRange

Answer = Callable[[bytes], bytes | None]
"""From the content of a request to the bytes sent back; None closes the connection."""


@dataclass
class AnsweringServer:
    """A server that answers by a function and keeps the requests."""

    port: int
    asked: list[bytes]
    ended: asyncio.Event


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[AnsweringServer]:
    state = AnsweringServer(0, [], asyncio.Event())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                state.asked.append(frame)
                reply = answer(frame)
                if reply is None:
                    break
                writer.write(reply)
        except ConnectionError:
            pass
        finally:
            writer.close()
            state.ended.set()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    state.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield state


@asynccontextmanager
async def connection(port: int, timeout_s: float = 5.0, limit: int = 1000) -> AsyncIterator[KafkaConnection]:
    opened = await KafkaConnection.connect("127.0.0.1", port, "me", request_timeout_s=timeout_s, limit=limit)
    try:
        yield opened
    finally:
        await opened.close()


def echo(frame: bytes) -> bytes:
    """An answer whose body is the request's."""
    header, offset = decode_request_header(frame)
    return encode_frame(encode_response_header(header.api_key, header.version, header.correlation_id), frame[offset:])


async def test_a_request_returns_the_body_of_the_answer() -> None:
    async with server(echo) as peer, connection(peer.port) as asking:
        assert await asking.request(ApiKey.UPDATE_METADATA, 8, b"head", b"rest") == b"headrest"
        assert await asking.request(ApiKey.UPDATE_METADATA, 5, b"old") == b"old"

    assert [decode_request_header(frame)[0].correlation_id for frame in peer.asked] == [1, 2]


class SlowLink:
    """A link whose peer reads only when it is drained; it records the most bytes that were buffered at once."""

    def __init__(self) -> None:
        self.sent = b""
        self.aborted = False
        self.most_buffered = 0
        self._buffered = b""

    async def readexactly(self, n: int, /) -> bytes:
        raise asyncio.IncompleteReadError(b"", n)

    def write(self, data: bytes) -> None:
        self._buffered += data
        self.most_buffered = max(self.most_buffered, len(self._buffered))

    async def drain(self) -> None:
        self.sent += self._buffered
        self._buffered = b""

    def ended(self) -> bool:
        return False

    def abort(self) -> None:
        self.aborted = True

    async def wait_closed(self) -> None:
        return


async def test_a_part_is_written_after_the_one_before_was_drained() -> None:
    link = SlowLink()
    asking = KafkaConnection(link, "me", 5.0, 1000, lambda: True)

    with pytest.raises(PeerClosed):
        await asking.request(ApiKey.UPDATE_METADATA, 8, *[bytes(1000)] * 50)

    assert len(link.sent) > 50_000
    assert link.most_buffered < 1100


async def test_no_part_is_written_after_sending_was_forbidden() -> None:
    link = SlowLink()
    asking = KafkaConnection(link, "me", 5.0, 1000, lambda: len(link.sent) < 3000)

    with pytest.raises(HeldBack):
        await asking.request(ApiKey.UPDATE_METADATA, 8, *[bytes(1000)] * 50)

    assert len(link.sent) < 4000
    assert link.aborted


async def test_a_caller_may_choose_the_correlation_id() -> None:
    async with server(echo) as peer, connection(peer.port) as asking:
        await asking.request(ApiKey.UPDATE_METADATA, 8, b"", correlation_id=77)

    assert decode_request_header(peer.asked[0])[0].correlation_id == 77


def wrong_correlation(frame: bytes) -> bytes:
    header, _ = decode_request_header(frame)
    return encode_frame(encode_response_header(header.api_key, header.version, header.correlation_id + 1))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (wrong_correlation, CorrelationMismatch),
        (lambda _: None, PeerClosed),
        (lambda _: encode_frame(bytes(1001)), FrameTooLarge),
        (lambda _: encode_frame(b"\0"), MalformedMessage),
        (lambda _: b"", TimeoutError),
    ],
)
async def test_after_any_failure_the_connection_is_closed(answer: Answer, error: type[Exception]) -> None:
    async with server(answer) as peer, connection(peer.port, timeout_s=0.3) as asking:
        with pytest.raises(error):
            await asking.request(ApiKey.UPDATE_METADATA, 8, b"")

        assert not asking.is_open
        with pytest.raises(PeerClosed):
            await asking.request(ApiKey.UPDATE_METADATA, 8, b"")


@asynccontextmanager
async def one_answer_and_close(reply: bytes) -> AsyncIterator[int]:
    """A server that answers one request with these bytes and closes the connection; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(reply)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_an_answer_cut_by_the_end_of_the_stream_is_truncated() -> None:
    async with one_answer_and_close(b"\0\0\0\x09abc") as port, connection(port) as asking:
        with pytest.raises(TruncatedFrame):
            await asking.request(ApiKey.UPDATE_METADATA, 8, b"")


async def test_an_idle_connection_that_the_peer_closed_is_not_open() -> None:
    reply = encode_frame(encode_response_header(ApiKey.UPDATE_METADATA, 8, 1))
    async with one_answer_and_close(reply) as port, connection(port) as asking:
        await asking.request(ApiKey.UPDATE_METADATA, 8, b"")

        await until(lambda: not asking.is_open)


async def test_a_cancelled_request_closes_the_connection() -> None:
    async with server(lambda _: b"") as peer, connection(peer.port) as asking:
        task = asyncio.ensure_future(asking.request(ApiKey.UPDATE_METADATA, 8, b""))
        await until(lambda: bool(peer.asked))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert not asking.is_open
        await asyncio.wait_for(peer.ended.wait(), 5)


async def until(met: Callable[[], bool]) -> None:
    """Poll, for at most five seconds, until ``met`` holds."""
    for _ in range(1000):
        if met():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("it never came true")


async def test_a_refused_connection_is_an_os_error() -> None:
    async with server(echo) as peer:
        port = peer.port

    with pytest.raises(OSError, match="Connect call failed"):
        await KafkaConnection.connect("127.0.0.1", port, "me")


def api_versions(frame: bytes) -> bytes:
    header, _ = decode_request(frame)
    keys = (ApiVersion(api_key=i16(4), min_version=i16(0), max_version=i16(7)),)
    response = ApiVersionsResponse(
        error_code=ErrorCode.none, api_keys=keys, throttle_time=i32Timedelta.parse(timedelta(0))
    )
    return encode_frame(encode_response(header.correlation_id, response))


def old_api_versions(frame: bytes) -> bytes:
    """A broker without version 3 answers in version 0 with an error."""
    header, _ = decode_request_header(frame)
    code = ErrorCode.unsupported_version if header.version > 0 else ErrorCode.none
    keys = (ApiVersionV0(api_key=i16(4), min_version=i16(0), max_version=i16(2)),)
    return encode_frame(encode_response(header.correlation_id, ApiVersionsResponseV0(error_code=code, api_keys=keys)))


@pytest.mark.parametrize(("answer", "highest"), [(api_versions, 7), (old_api_versions, 2)])
async def test_versions_are_read_from_new_and_old_brokers(answer: Answer, highest: int) -> None:
    async with server(answer) as peer, connection(peer.port) as asking:
        assert await asking.api_versions() == {4: VersionRange(0, highest)}


async def test_an_unreadable_answer_to_api_versions_closes_the_connection() -> None:
    async with server(lambda frame: echo(frame[:-1])) as peer, connection(peer.port) as asking:
        with pytest.raises(WireError):
            await asking.api_versions()

        assert not asking.is_open
