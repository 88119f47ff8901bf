"""The messages of controllerctl where no daemon, or another server, answers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cli.client import Client
from cli.exit_codes import CliError, ExitCode
from tests.cli.running import controllerctl


@asynccontextmanager
async def something_else(answer: bytes) -> AsyncIterator[str]:
    """A server that reads a request and answers this, or nothing at all when it is empty; its address."""
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer:
            writer.write(answer)
        else:
            await done.wait()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            done.set()


async def test_no_daemon_names_the_address_and_how_to_give_another() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"

        outcome = await controllerctl("--api", url, "status")

    assert outcome.code == 69
    assert url in outcome.err
    assert "--api URL or CONTROLLERCTL_API" in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_another_server_is_recognised_as_such(answer: bytes) -> None:
    async with something_else(answer) as url:
        outcome = await controllerctl("--api", url, "status")

    assert outcome.code == 69
    assert "is not controllerd" in outcome.err


async def test_a_daemon_that_does_not_answer_is_a_timeout() -> None:
    async with something_else(b"") as url:
        outcome = await controllerctl("--api", url, "--timeout", "200ms", "status")

    assert outcome.code == 124
    assert "within 0.2 s" in outcome.err


@pytest.mark.parametrize(
    "api", ["localhost:9191", "ftp://h:1", "http://", "http://h:port", "http://h:99999", "http://h:0"]
)
def test_a_malformed_address_is_wrong_usage(api: str) -> None:
    with pytest.raises(CliError, match="--api must be like") as refused:
        Client(api, 1.0)

    assert refused.value.code is ExitCode.USAGE
