"""Opens the HTTP endpoint as configured: sockets, TLS, tokens and limits around an application."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from controllerd.config.model import HttpConfig
from controllerd.status.access import Gate
from controllerd.status.connection import Connection
from controllerd.status.limits import Door, Limits
from controllerd.status.sockets import Sockets, open_sockets
from controllerd.status.tls import ServerTls
from controllerd.status.tokens import Tokens

log = structlog.get_logger(__name__)

_CLOSE_WAIT_S: Final = 0.5
"""Requests in work may end within this time; the daemon has two seconds to stop."""
_BACKLOG: Final = 128

Factory = Callable[[], asyncio.Protocol]
Listen = Callable[[Factory], Awaitable[asyncio.Server]]


class Entrance:
    """Everything between the network and the routes."""

    def __init__(self, http: HttpConfig, environment: Mapping[str, str], limits: Limits) -> None:
        """:raises ConfigError: a token or a certificate cannot be read."""
        self._http = http
        self._environment = environment
        self._tls = ServerTls.configured(http)
        self._tokens = Tokens.configured(http, environment)
        self._sockets: Sockets | None = None
        self._runner: web.AppRunner | None = None
        self.gate: Gate | None = None
        """None before it is opened."""
        self.door: Final = Door(limits)

    async def open(self, application: Callable[[Middleware], web.Application]) -> int:
        """Listen; the TCP port. :raises OSError: an address cannot be bound. :raises ConfigError: it must not be."""
        self._sockets = sockets = open_sockets(self._http, self._environment)
        names = frozenset({self._http.listen.host, socket.gethostname()})
        self.gate = Gate(self._tokens, self.door, is_local=sockets.is_local, names=names)
        self._runner = web.AppRunner(
            application(self.gate.admit), handle_signals=False, shutdown_timeout=_CLOSE_WAIT_S, access_log=None
        )
        await self._runner.setup()
        try:
            for listen, tls in self._places(sockets):
                await _Site(self._runner, listen, self.door, tls).start()
        except OSError:
            await self.close()
            raise
        return int(next(address[1] for address in self._runner.addresses if isinstance(address, tuple)))

    def reload(self) -> None:
        """Read tokens and certificates anew. :raises ConfigError: they cannot be used; the old ones are."""
        tokens = Tokens.configured(self._http, self._environment)
        if self._tls is not None:
            self._tls.reload()
        self._tokens = tokens
        if self.gate is not None:
            self.gate.tokens = tokens

    async def close(self) -> None:
        """Stop listening and end what is in work. Harmless when nothing was opened."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self.door.close()
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    def _places(self, sockets: Sockets) -> list[tuple[Listen, ServerTls | None]]:
        """Where to listen, and with which certificate; the unix socket has none."""
        create = partial(asyncio.get_running_loop().create_server, backlog=_BACKLOG)
        address = sockets.address
        places: list[tuple[Listen, ServerTls | None]] = [
            (partial(create, sock=opened), None if opened.family == socket.AF_UNIX else self._tls)
            for opened in sockets.opened
        ]
        if address is not None:
            places.insert(0, (partial(create, host=address.host, port=address.port), self._tls))
        return places


class _Site(web.BaseSite):
    """A place where we listen, in the hands of aiohttp's runner."""

    __slots__ = ("_door", "_listen", "_tls")

    def __init__(self, runner: web.AppRunner, listen: Listen, door: Door, tls: ServerTls | None) -> None:
        super().__init__(runner)
        self._listen = listen
        self._door = door
        self._tls = tls

    @property
    def name(self) -> str:
        """For people."""
        return "https" if self._tls else "http"

    async def start(self) -> None:
        """Listen. :raises OSError: the address cannot be bound."""
        await super().start()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        context = self._tls.context if self._tls else None
        self._server = await self._listen(lambda: Connection(server, self._door, context))
