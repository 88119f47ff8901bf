"""A real listener around a few routes, and raw connections to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from controllerd.config.model import Address, HttpConfig, Secret
from controllerd.status.http.access import PRINCIPAL
from controllerd.status.http.limits import DEFAULT_LIMITS, Limits
from controllerd.status.http.listener import HttpListener
from controllerd.status.http.problems import describe_problems
from controllerd.status.http.routing import Access, Route, register

STREAM = {"Accept": "text/event-stream"}
CERTIFICATES = Path(__file__).with_name("certificates")
READ, ADMIN = "read-token-of-tests", "admin-token-of-tests"
FREE = HttpConfig(listen=Address("127.0.0.1", 0))
GUARDED = msgspec.structs.replace(FREE, read_token=Secret(READ), admin_token=Secret(ADMIN))
SECURE = msgspec.structs.replace(
    GUARDED, tls_certificate=CERTIFICATES / "server.pem", tls_key=CERTIFICATES / "server.key"
)
HASTY = Limits(head_s=0.2, body_s=0.2, unread_s=0.2, handshake_s=0.2, keep_alive_s=0.4)
"""Short limits, for tests that wait until a client is disconnected."""
BIG = b"x" * 16 * 1024 * 1024


@dataclass
class Endpoint:
    """A listener with a few routes, its port, and the requests that were served."""

    listener: HttpListener
    port: int = 0
    principals: list[str | None] = field(default_factory=list)
    """The principals of the served verbs; None for an anonymous client."""
    bodies: list[int] = field(default_factory=list)
    streams: int = 0
    """The number of open streams."""

    def application(self, access: Middleware) -> web.Application:
        """A route of each kind."""
        app = web.Application(middlewares=[describe_problems, access])
        routes = [
            Route(method="GET", path="/livez", handler=self._fine, summary="", access=Access.OPEN),
            Route(method="GET", path="/look", handler=self._fine, summary=""),
            Route(method="GET", path="/big", handler=self._big, summary=""),
            Route(method="GET", path="/stream", handler=self._stream, summary="", is_stream=True),
            Route(method="POST", path="/verb", handler=self._verb, summary="", access=Access.ADMIN),
            Route(method="POST", path="/plan", handler=self._verb, summary="", access=Access.ADMIN, body_limit=2**20),
            Route(method="GET", path="/defect", handler=self._defect, summary=""),
        ]
        register(app, routes)
        return app

    async def _fine(self, _request: web.Request) -> web.Response:
        return web.Response(text="fine")

    async def _big(self, _request: web.Request) -> web.Response:
        return web.Response(body=BIG)

    async def _verb(self, request: web.Request) -> web.Response:
        self.principals.append(request.get(PRINCIPAL))
        self.bodies.append(len(await request.read()))
        return web.Response(text="done")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.streams += 1
        try:
            while True:
                await response.write(b"data: " + b"x" * 4096 + b"\n\n")
                await asyncio.sleep(0)
        finally:
            self.streams -= 1

    async def _defect(self, _request: web.Request) -> web.Response:
        raise KeyError("a defect")


@asynccontextmanager
async def opened(
    http: HttpConfig = FREE, limits: Limits = DEFAULT_LIMITS, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Endpoint]:
    """A running endpoint."""
    endpoint = Endpoint(HttpListener(http, environment or {}, limits))
    endpoint.port = await endpoint.listener.open(endpoint.application)
    try:
        yield endpoint
    finally:
        await endpoint.listener.close()


@dataclass
class RawConnection:
    """A connection that sends arbitrary bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        """Send without waiting."""
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """The status and the head of the next answer, whose body is read, too."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
        await self.reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)
        return int(head.split()[1]), head

    async def is_closed(self) -> bool:
        """Wait until the server closes the connection, and read everything that it sends before."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def connected(endpoint: Endpoint, context: ssl.SSLContext | None = None) -> AsyncIterator[RawConnection]:
    """A connection to the endpoint."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=context)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def http_request(
    path: str = "/livez",
    method: str = "GET",
    body: bytes = b"",
    headers: Mapping[str, str] = MappingProxyType({}),
    *,
    host: str = "localhost",
) -> bytes:
    """The bytes of a request."""
    fields = {"Host": host, **headers}
    if method == "POST":
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **fields}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


async def ask(endpoint: Endpoint, request: bytes, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """Status and head of the answer to one request over a connection of its own."""
    async with connected(endpoint, context) as connection:
        connection.send(request)
        return await connection.answer()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the time-out of the test ends a wait in vain."""
    while not condition():  # noqa: ASYNC110  # the condition has no event to wait for
        await asyncio.sleep(0.005)
