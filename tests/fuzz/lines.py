"""Connections to the server under test, over loopback sockets or in memory, that keep all received bytes.

A client of asyncio's streams drops unread data when the connection breaks. These connections do not, so that an answer
that came before a hang-up counts.
"""

import asyncio
from collections import deque
from typing import Protocol

from wire.transport import PLAINTEXT_SERVER, Accept, Link, TransportPeer

_SIZE = 4


class FrameInbox:
    """The received frames, and whether more can come."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.is_closed = False
        self.rest = bytearray()
        self._changed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take received bytes."""
        self.rest += data
        while len(self.rest) >= _SIZE:
            size = int.from_bytes(self.rest[:_SIZE], "big", signed=True)
            if size < 0 or len(self.rest) < _SIZE + size:
                break
            self.frames.append(bytes(self.rest[_SIZE : _SIZE + size]))
            del self.rest[: _SIZE + size]
        self._changed.set()

    def close(self) -> None:
        """Note that the server hung up."""
        self.is_closed = True
        self._changed.set()

    async def next_frame(self, patience_s: float) -> bytes | None:
        """The next answer; None when the connection is closed instead. :raises TimeoutError: neither came in time."""
        async with asyncio.timeout(patience_s):
            while not self.frames and not self.is_closed:
                self._changed.clear()
                await self._changed.wait()
        return self.frames.popleft() if self.frames else None


class Line(Protocol):
    """The client's end of a connection."""

    inbox: FrameInbox

    def send(self, data: bytes) -> None:
        """Send bytes, now."""
        ...

    def pause(self) -> None:
        """Read nothing until ``resume``."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def finish(self) -> None:
        """Close the sending side."""
        ...

    def abort(self) -> None:
        """Drop the connection."""
        ...


class SocketLine(asyncio.Protocol):
    """A connection over a socket."""

    def __init__(self) -> None:
        self.inbox = FrameInbox()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, host: str, port: int) -> "SocketLine":
        """Open a connection. :raises OSError: no server listens."""
        _, line = await asyncio.get_running_loop().create_connection(cls, host, port)
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.inbox.feed(data)

    def eof_received(self) -> bool:
        """Called by asyncio."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.inbox.close()

    @property
    def _open(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._open.write(data)

    def pause(self) -> None:
        """Read nothing."""
        if self._open.is_reading():
            self._open.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if not self._open.is_closing():
            self._open.resume_reading()

    def finish(self) -> None:
        """Close this side."""
        if not self._open.is_closing():
            self._open.write_eof()

    def abort(self) -> None:
        """Drop the connection."""
        self._open.abort()


class _ServerEnd:
    """The server's end of a connection in memory; implements ``Link``."""

    def __init__(self, inbox: FrameInbox) -> None:
        self.stream = asyncio.StreamReader()
        self._inbox = inbox
        self._kept: list[bytes] = []
        self.is_paused = False

    async def readexactly(self, n: int, /) -> bytes:
        return await self.stream.readexactly(n)

    def write(self, data: bytes) -> None:
        if self._inbox.is_closed:
            return
        if self.is_paused:
            self._kept.append(data)
        else:
            self._inbox.feed(data)

    def resume(self) -> None:
        self.is_paused = False
        for data in self._kept:
            self._inbox.feed(data)
        self._kept.clear()

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def ended(self) -> bool:
        return self.stream.at_eof()

    def abort(self) -> None:
        self.resume()
        self._inbox.close()

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)


class MemoryLine:
    """A connection in memory: for the server it is like a socket, but it costs a tenth."""

    def __init__(self, acceptor: "LineAcceptor", number: int) -> None:
        self.inbox = FrameInbox()
        self._far = _ServerEnd(self.inbox)
        acceptor.accept(MeasuredLink(self._far, acceptor), TransportPeer(f"127.0.0.9:{number}"))

    def send(self, data: bytes) -> None:
        """Send bytes."""
        if not self.inbox.is_closed:
            self._far.stream.feed_data(data)

    def pause(self) -> None:
        """Read nothing."""
        self._far.is_paused = True

    def resume(self) -> None:
        """Read again."""
        self._far.resume()

    def finish(self) -> None:
        """Close the sending side."""
        self._far.stream.feed_eof()

    def abort(self) -> None:
        """Drop the connection."""
        self._far.stream.feed_eof()
        self.inbox.close()


class MeasuredLink:
    """A link of the server that records the largest read; implements ``Link``."""

    def __init__(self, link: Link, acceptor: "LineAcceptor") -> None:
        self._link = link
        self._door = acceptor
        self.write, self.drain, self.ended = link.write, link.drain, link.ended
        self.abort, self.wait_closed = link.abort, link.wait_closed

    async def readexactly(self, n: int, /) -> bytes:
        self._door.largest_read = max(self._door.largest_read, n)
        return await self._link.readexactly(n)


class LineAcceptor:
    """The server's acceptor: a real socket, and a second way in for connections in memory."""

    def __init__(self) -> None:
        self.largest_read = 0
        """The largest number of bytes that the server ever requested at once."""
        self.accept: Accept = lambda _link, _peer: None

    async def listen(self, host: str, port: int, accept: Accept) -> asyncio.Server:
        """Bind the socket, as the plaintext acceptor does."""
        self.accept = accept
        return await PLAINTEXT_SERVER.listen(host, port, lambda link, peer: accept(MeasuredLink(link, self), peer))
