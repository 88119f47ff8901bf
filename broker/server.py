"""The broker's listener. As in a stock broker, it processes one request at a time on each connection."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from broker.background import Background
from controllerd.core.model import Endpoint
from wire.errors import WireError
from wire.framing import encode_frame, read_frame

log = structlog.get_logger(__name__)


class BrokerListener:
    """One listening socket."""

    def __init__(self, background: Background, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """``answer`` returns the response to a request frame, or raises ``WireError`` to close the connection."""
        self._background = background
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def open(self, endpoint: Endpoint) -> Endpoint:
        """Listen; return the endpoint with the port in use. :raises OSError: the port cannot be bound."""
        self._server = await asyncio.start_server(self._accept, endpoint.host, endpoint.port)
        return endpoint._replace(port=self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more connections; the tasks of open connections end with the broker's."""
        if self._server is not None:
            self._server.close()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        if self._server is not None:
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is not None and self._server.is_serving():
            self._background.spawn("connection", self._serve(reader, writer))
        else:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                writer.write(encode_frame(await self._answer(frame)))
                await writer.drain()
        except WireError as error:
            log.warning("closed connection after an invalid request", error=repr(error))
        except ConnectionError as error:
            log.debug("lost connection", error=repr(error))
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):  # the failure was logged already
                await writer.wait_closed()
