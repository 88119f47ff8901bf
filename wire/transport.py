"""How bytes reach a peer: the one seam behind which TLS and SASL belong, and where a simulation puts its network."""

import asyncio
from typing import Protocol


class Link(Protocol):
    """One open connection: a stream of bytes each way."""

    async def readexactly(self, n: int, /) -> bytes:
        """Exactly ``n`` bytes. :raises asyncio.IncompleteReadError: the peer closed. :raises OSError: it broke."""
        ...

    def write(self, data: bytes) -> None:
        """Hand bytes over to be sent, in order."""
        ...

    async def drain(self) -> None:
        """Wait until little enough is buffered. :raises OSError: the connection broke."""
        ...

    def ended(self) -> bool:
        """Whether the peer has closed its side already, and nothing is left to read."""
        ...

    def abort(self) -> None:
        """Close at once: what is buffered is never sent. Harmless when closed already."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the connection is gone, after ``abort``; never raises."""
        ...


class Transport(Protocol):
    """Opens connections."""

    async def open(self, host: str, port: int) -> Link:
        """A new connection, authenticated if that is the transport's business. :raises OSError: it cannot be had."""
        ...


class StreamLink:
    """A connection over asyncio streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def readexactly(self, n: int, /) -> bytes:
        """Exactly ``n`` bytes."""
        return await self._reader.readexactly(n)

    def write(self, data: bytes) -> None:
        """Hand bytes over; they go out at once if the socket takes them."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until little enough is buffered."""
        await self._writer.drain()

    def ended(self) -> bool:
        """Whether the peer has closed its side already."""
        return self._reader.at_eof()

    def abort(self) -> None:
        """Close at once and forget what is buffered."""
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed; why it broke, if it did, was told to whoever used it."""
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


class PlaintextTransport:
    """TCP without TLS and without authentication."""

    async def open(self, host: str, port: int) -> StreamLink:
        """A new TCP connection."""
        return StreamLink(*await asyncio.open_connection(host, port))


PLAINTEXT = PlaintextTransport()
