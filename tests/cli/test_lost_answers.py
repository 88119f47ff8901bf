"""An answer that is lost on its way: the request is repeated with its key, and done once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.cli.documents import run
from tests.status.verbs.operating import Operator


@asynccontextmanager
async def losing_the_first_answer(url: str) -> AsyncIterator[str]:
    """A way to the daemon on which the answer of the first request with a key is lost; its address."""
    lost: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in request.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        request += await reader.readexactly(length)
        there, back = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        back.write(request.replace(b"\r\nHost:", b"\r\nConnection: close\r\nHost:", 1))
        answer = await there.read()
        back.close()
        if b"Idempotency-Key" in request and not lost:
            lost.append(request)
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    assert lost


async def test_a_repeated_request_is_done_once(operator: Operator) -> None:
    async with losing_the_first_answer(operator.url) as url:
        words = ("pause", "deletions", "--for", "60s", "--yes", "--api", url)
        outcome = await asyncio.to_thread(run, *words)

    assert (outcome.code, "asking again" in outcome.err) == (0, True)
    assert len(await operator.tasks()) == 1
