"""The helpers of group A, where it is not obvious that they work."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.scenarios.nodes import end_session

SESSION = (7, b"p" * 16)


@asynccontextmanager
async def server_that(*answers: list[int | None]) -> AsyncIterator[str]:
    """A server that answers frames by connection: with a session id, or None for an empty frame; then it hangs up."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in left.pop(0):
            await reader.readexactly(struct.unpack("!i", await reader.readexactly(4))[0])
            content = struct.pack("!iiq", 0, 0, answer or 0)
            writer.write(struct.pack("!i", len(content)) + content)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    assert left == []


async def test_a_session_is_ended_though_its_owner_throws_the_second_client_out() -> None:
    """The second client is closed before its connection, then after it and before its request.

    So it connects a third time.
    """
    async with server_that([], [7], [7, None]) as server:
        await end_session(SESSION, server)


async def test_a_session_that_is_gone_after_the_answer_was_lost_was_ended_by_us() -> None:
    async with server_that([7], [0]) as server:
        await end_session(SESSION, server)


async def test_a_session_that_had_ended_before_anybody_asked_fails_the_test() -> None:
    async with server_that([0]) as server:
        with pytest.raises(AssertionError, match="ended already"):
            await end_session(SESSION, server)
