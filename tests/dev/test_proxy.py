"""The proxy forwards all bytes, records when they came, and delays, cuts and refuses on demand."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controllerd.dev.proxy import Chunk, TcpProxy

BROKEN = (ConnectionError, asyncio.IncompleteReadError)


class Recorder(TcpProxy):
    """A proxy that keeps the chunks it sees, and holds the client's bytes until it is released."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.chunks: list[Chunk] = []
        self.saw_something = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def seen(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.saw_something.set()

    async def release(self, chunk: Chunk) -> None:
        if chunk.from_client:
            await self.go_on.wait()


@asynccontextmanager
async def echo() -> AsyncIterator[str]:
    """An echo server that ends with its client; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await server.wait_closed()


@pytest.fixture
async def proxy() -> AsyncIterator[Recorder]:
    """A recorder before an echo."""
    async with echo() as upstream, Recorder(upstream) as running:
        yield running


@asynccontextmanager
async def client(proxy: TcpProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection by way of the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    async with asyncio.timeout(10):
        yield reader, writer
    writer.close()


async def test_bytes_come_and_go_and_are_seen_with_their_time(proxy: Recorder) -> None:
    before = time.monotonic()
    async with client(proxy) as (reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"

    assert [(c.connection, c.from_client, c.data) for c in proxy.chunks] == [(1, True, b"hello"), (1, False, b"hello")]
    assert before <= proxy.chunks[0].at_s <= proxy.chunks[1].at_s <= time.monotonic()


async def test_held_bytes_are_seen_at_once_and_forwarded_later(proxy: Recorder) -> None:
    proxy.go_on.clear()
    async with client(proxy) as (reader, writer):
        writer.write(b"hello")
        await proxy.saw_something.wait()
        held_at = time.monotonic()
        proxy.go_on.set()
        assert await reader.readexactly(5) == b"hello"

    assert proxy.chunks[0].at_s <= held_at


async def test_bytes_sent_before_the_end_are_still_forwarded(proxy: Recorder) -> None:
    async with client(proxy) as (reader, writer):
        writer.write(b"last words")
        writer.write_eof()
        assert await reader.read() == b"last words"


async def test_a_cut_ends_the_connection_and_not_the_proxy(proxy: Recorder) -> None:
    async with client(proxy) as (reader, writer):
        writer.write(b"a")
        await reader.readexactly(1)
        proxy.cut()
        with pytest.raises(BROKEN):
            await reader.readexactly(1)
    async with client(proxy) as (reader, writer):
        writer.write(b"b")
        assert await reader.readexactly(1) == b"b"


async def test_an_isolated_server_refuses_until_the_proxy_is_healed(proxy: Recorder) -> None:
    proxy.isolate()
    async with client(proxy) as (reader, _):
        with pytest.raises(BROKEN):
            await reader.readexactly(1)
    proxy.heal()
    async with client(proxy) as (reader, writer):
        writer.write(b"b")
        assert await reader.readexactly(1) == b"b"


async def test_a_missing_server_looks_like_one_that_closes_the_connection() -> None:
    async with echo() as upstream:
        gone = upstream
    async with TcpProxy(gone) as proxy, client(proxy) as (reader, _):
        with pytest.raises(BROKEN):
            await reader.readexactly(1)
