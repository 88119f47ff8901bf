"""A TCP proxy between a client and one server. It reports every chunk, and can delay, break and refuse connections.

It reads at once all bytes that arrive, even while it delays others, so that the time of a chunk is the time at which it
was sent.
"""

import asyncio
import contextlib
import time
from typing import NamedTuple, Self

from controllerd.dev.ports import LOOPBACK

_READ_BYTES = 65_536


class Chunk(NamedTuple):
    """Bytes of one direction of one connection, in the order in which they arrived; ``at_s`` is monotonic."""

    at_s: float
    connection: int
    from_client: bool
    data: bytes


class TcpProxy:
    """Forward connections to ``upstream`` (``host:port``). As an async context manager it listens on a free port.

    It runs in the event loop that entered it. A subclass may observe (``seen``) and delay (``release``) chunks.
    """

    def __init__(self, upstream: str) -> None:
        self._host, _, port = upstream.partition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = True
        """While False, new connections are closed at once."""
        self.connections = 0
        """The number of accepted connections; each connection has a number, from 1."""

    def seen(self, chunk: Chunk) -> None:
        """Observe a chunk that arrived and has not been forwarded yet."""

    async def release(self, chunk: Chunk) -> None:
        """Return when a chunk may be forwarded; the chunks behind it in the same direction wait."""

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connect(self) -> str:
        """The `host:port` that clients connect to."""
        return f"{LOOPBACK}:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection; new ones are accepted if ``is_open``."""
        for writer in self._writers:
            writer.transport.abort()

    def isolate(self) -> None:
        """Break every connection and accept none until ``heal``."""
        self.is_open = False
        self.cut()

    def heal(self) -> None:
        """Accept connections again."""
        self.is_open = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Closing the proxy cancels this; asyncio's server would log that as an error.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                if self.is_open:
                    await self._join(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        self.connections += 1
        number, pair = self.connections, {writer, up_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(number, reader, up_writer, from_client=True))
                both.create_task(self._pump(number, up_reader, writer, from_client=False))
        finally:
            self._writers -= pair
            up_writer.transport.abort()

    async def _pump(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        """Forward one direction until its sender ends it; the end is forwarded behind the last byte."""
        arrived: asyncio.Queue[Chunk | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as both:
            both.create_task(self._forward(arrived, writer))
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(_READ_BYTES):
                    chunk = Chunk(time.monotonic(), number, from_client, data)
                    self.seen(chunk)
                    arrived.put_nowait(chunk)
            arrived.put_nowait(None)

    async def _forward(self, arrived: asyncio.Queue[Chunk | None], writer: asyncio.StreamWriter) -> None:
        while (chunk := await arrived.get()) is not None:
            await self.release(chunk)
            if not writer.is_closing():
                writer.write(chunk.data)
        if not writer.is_closing():
            with contextlib.suppress(OSError):  # the other side has closed the connection already
                writer.write_eof()
