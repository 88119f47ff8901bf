"""A TCP proxy before ZooKeeper that knows the frames: it cuts connections, loses answers, and plays an older server."""

import asyncio
import contextlib
import struct
from typing import Self

MULTI = 14
MULTI_READ = 22
SET_WATCHES = 101
_HEADER = struct.Struct("!ii")
_UNIMPLEMENTED = -6


class ZooKeeperProxy:
    """Forwards frames between clients and one server. As an async context manager it listens on a free port."""

    def __init__(self, upstream: str) -> None:
        self._host, _, port = upstream.partition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lose_after: int | None = None
        self._skip = 0
        self.is_open = True
        """While False, new connections are closed at once."""
        self.silent = 0
        """So many of the next connections are accepted and never answered."""
        self.unknown: set[int] = set()
        """Opcodes that are answered as by a server that does not know them."""
        self.requests: list[int] = []
        """The opcodes of all requests that came by."""
        self.held: dict[int, asyncio.Event] = {}
        """Requests with these opcodes wait for the event before they go on to the server."""
        self.lost = 0
        """Answers that were thrown away."""

    @property
    def connect(self) -> str:
        """The value of ``zookeeper.connect``."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.transport.abort()

    def lose_answer(self, opcode: int, *, skip: int = 0) -> None:
        """Throw away the answer to the next request of this kind (after ``skip`` others), and cut the connection."""
        self._lose_after, self._skip = opcode, skip

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.silent:
                self.silent -= 1
                await reader.read()
            elif self.is_open:
                await self._forward(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        doomed: set[int] = set()
        pair = {writer, up_writer}
        self._writers |= pair
        try:
            requests = asyncio.create_task(self._requests(reader, up_writer, writer, doomed))
            answers = asyncio.create_task(self._answers(up_reader, writer, doomed))
            await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
            for task in (requests, answers):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
                    await task
        finally:
            self._writers -= pair
            for end in pair:
                end.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        doomed: set[int],
    ) -> None:
        up_writer.write(await _frame(reader))  # the handshake has no header
        while True:
            frame = await _frame(reader)
            xid, opcode = _HEADER.unpack_from(frame, 4)
            self.requests.append(opcode)
            if opcode in self.unknown:
                writer.write(struct.pack("!iiqi", 16, xid, 0, _UNIMPLEMENTED))
                continue
            if opcode in self.held:
                await self.held[opcode].wait()
            if opcode == self._lose_after:
                self._skip -= 1
                if self._skip < 0:
                    self._lose_after = None
                    doomed.add(xid)
            up_writer.write(frame)

    async def _answers(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: set[int]) -> None:
        writer.write(await _frame(up_reader))
        while True:
            frame = await _frame(up_reader)
            if _HEADER.unpack_from(frame, 4)[0] in doomed:
                self.lost += 1
                return
            writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("!i", length)[0])
