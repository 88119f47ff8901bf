"""The base of the fakes that listen on the loopback: a subclass answers the frames."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Self

from wire.errors import WireError
from wire.framing import encode_frame, read_frame

HOST: Final = "127.0.0.1"


class ListeningFake(ABC):
    """A server that answers frame by frame. As an async context manager it listens on free ports."""

    def __init__(self, *, sockets: int = 1) -> None:
        self.ports = [0] * sockets
        """One for each socket; they are zero before it listens."""
        self.connections: list[asyncio.StreamWriter] = []
        """All connections that were accepted, in order; closed ones stay."""
        self.failures: list[WireError] = []
        """Errors of requests that were cut off or could not be decoded."""
        self._servers: list[asyncio.Server] = []
        self._conversations: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port of the first socket."""
        return self.ports[0]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Listen."""
        self._servers = [await asyncio.start_server(self._accept, HOST, 0) for _ in self.ports]
        self.ports = [server.sockets[0].getsockname()[1] for server in self._servers]

    async def close(self) -> None:
        """Close every socket, end every conversation, and wait until that is done."""
        for server in self._servers:
            server.close()
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()

    @abstractmethod
    async def answer(self, frame: bytes) -> bytes | None:
        """Make the content of the answer to the content of a frame; None leaves the frame unanswered.

        :raises ConnectionError: the connection is to be closed.
        """

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        conversation = asyncio.create_task(self._serve(reader, writer))
        self._conversations.add(conversation)
        conversation.add_done_callback(self._conversations.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                if (answer := await self.answer(frame)) is not None:
                    writer.write(encode_frame(answer))
        except WireError as error:
            self.failures.append(error)
        except ConnectionError:
            return  # the client has closed the connection, or the subclass wants it closed
        finally:
            writer.transport.abort()
