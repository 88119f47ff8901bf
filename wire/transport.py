"""Transports, which open connections and accept them: plain, TLS, SASL; the simulation has one of its own."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol


class Link(Protocol):
    """One open connection: a stream of bytes each way."""

    async def readexactly(self, n: int, /) -> bytes:
        """Exactly ``n`` bytes. :raises asyncio.IncompleteReadError: the peer closed. :raises OSError: it broke."""
        ...

    def write(self, data: bytes) -> None:
        """Buffer bytes, which are sent in order."""
        ...

    async def drain(self) -> None:
        """Wait until little enough is buffered. :raises OSError: the connection broke."""
        ...

    def ended(self) -> bool:
        """Return whether the peer has closed its side already, and nothing is left to read, or the connection broke."""
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
        """Open a connection, authenticated if the transport authenticates. :raises OSError: it cannot be opened."""
        ...


class TransportPeer(NamedTuple):
    """The peer of an accepted connection: its address, and its authenticated name; None without authentication."""

    address: str
    identity: str | None = None


Accept = Callable[[Link, TransportPeer], None]


class Acceptor(Protocol):
    """Accept connections: the server side of a Transport."""

    async def listen(self, host: str, port: int, accept: Accept) -> asyncio.Server:
        """Bind an address; port 0 lets the system choose. Nothing is accepted before ``start_serving``.

        ``accept`` receives each connection, authenticated if the transport authenticates, and must not block.

        :raises OSError: it cannot be bound.
        """
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
        """Return whether the peer has closed its side already, or the connection broke: a reset is no end of the
        stream.
        """
        return self._reader.at_eof() or self._writer.is_closing()

    def abort(self) -> None:
        """Close at once and forget what is buffered."""
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed; a failure was raised to the task that used it."""
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


class PlaintextTransport:
    """TCP without TLS and without authentication."""

    async def open(self, host: str, port: int) -> StreamLink:
        """A new TCP connection."""
        return StreamLink(*await asyncio.open_connection(host, port))


class PlaintextAcceptor:
    """TCP without TLS and without authentication."""

    async def listen(self, host: str, port: int, accept: Accept) -> asyncio.Server:
        """Bind a TCP socket."""

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accept(StreamLink(reader, writer), TransportPeer(_address(writer)))

        return await asyncio.start_server(connected, host, port, start_serving=False)


def _address(writer: asyncio.StreamWriter) -> str:
    address = writer.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if address else "unknown:0"


PLAINTEXT: Final = PlaintextTransport()
PLAINTEXT_SERVER: Final = PlaintextAcceptor()
