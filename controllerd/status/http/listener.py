"""Listens as configured: on an address, on a unix socket, on sockets that systemd opened, with TLS."""

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from controllerd.config.model import Address, HttpConfig
from controllerd.config.validation import unprotected
from controllerd.errors import ConfigError
from controllerd.status.http.access import AccessControl
from controllerd.status.http.connection import Connection
from controllerd.status.http.credentials import Tokens
from controllerd.status.http.limits import ConnectionLimiter, Limits

log = structlog.get_logger(__name__)

_CLOSE_WAIT_S: Final = 0.5
"""Requests that are being served may end within this time; the daemon has two seconds to stop."""
_BACKLOG: Final = 128
_FIRST_FD: Final = 3
_SOCKET_MODE: Final = 0o660

Factory = Callable[[], asyncio.Protocol]
Listen = Callable[[Factory], Awaitable[asyncio.Server]]


class HttpListener:
    """Serves an application with TLS, limits and access control."""

    def __init__(self, http: HttpConfig, environment: Mapping[str, str], limits: Limits) -> None:
        """:raises ConfigError: a token or a certificate cannot be read."""
        self._http = http
        self._environment = environment
        self._tls = ServerTls.configured(http)
        self._tokens = Tokens.configured(http, environment)
        self._sockets: ListeningSockets | None = None
        self._runner: web.AppRunner | None = None
        self.access: AccessControl | None = None
        """None before ``open``."""
        self.limiter: Final = ConnectionLimiter(limits)

    async def open(self, application: Callable[[Middleware], web.Application]) -> int:
        """Listen, and return the TCP port.

        :raises OSError: an address cannot be bound. :raises ConfigError: a socket from systemd cannot be used.
        """
        self._sockets = sockets = open_sockets(self._http, self._environment)
        names = frozenset({self._http.listen.host, socket.gethostname()})
        self.access = AccessControl(self._tokens, self.limiter, is_local=sockets.is_local, names=names)
        self._runner = web.AppRunner(
            application(self.access.check), handle_signals=False, shutdown_timeout=_CLOSE_WAIT_S, access_log=None
        )
        await self._runner.setup()
        try:
            for listen, tls in self._places(sockets):
                await _Site(self._runner, listen, self.limiter, tls).start()
        except OSError:
            await self.close()
            raise
        return int(next(address[1] for address in self._runner.addresses if isinstance(address, tuple)))

    def reload(self) -> None:
        """Read tokens and certificates again. :raises ConfigError: they cannot be used; the old ones stay in use."""
        tokens = Tokens.configured(self._http, self._environment)
        if self._tls is not None:
            self._tls.reload()
        self._tokens = tokens
        if self.access is not None:
            self.access.tokens = tokens

    async def close(self) -> None:
        """Stop listening, and end the requests that are being served. Harmless when nothing was opened."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self.limiter.close()
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    def _places(self, sockets: "ListeningSockets") -> list[tuple[Listen, "ServerTls | None"]]:
        """Return the functions that listen, each with its TLS; the unix socket has no TLS."""
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
    """One address or socket of aiohttp's runner, which makes a ``Connection`` for each client."""

    __slots__ = ("_limiter", "_listen", "_tls")

    def __init__(
        self, runner: web.AppRunner, listen: Listen, limiter: ConnectionLimiter, tls: "ServerTls | None"
    ) -> None:
        super().__init__(runner)
        self._listen = listen
        self._limiter = limiter
        self._tls = tls

    @property
    def name(self) -> str:
        return "https" if self._tls else "http"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        context = self._tls.context if self._tls else None
        self._server = await self._listen(lambda: Connection(server, self._limiter, context))


# -- sockets -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListeningSockets:
    """The open sockets, and the address that is still to be bound; None where systemd opened a socket for it."""

    address: Address | None
    opened: tuple[socket.socket, ...] = ()
    made: Path | None = None
    """The file of the unix socket that this process made and removes."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        addresses = [_address(opened) for opened in self.opened if opened.family != socket.AF_UNIX]
        addresses += [self.address] if self.address else []
        return all(address.is_loopback for address in addresses)

    def close(self) -> None:
        """Close the sockets, and remove the socket file that this process made."""
        for opened in self.opened:
            opened.close()
        if self.made is not None:
            self.made.unlink(missing_ok=True)


def open_sockets(http: HttpConfig, environment: Mapping[str, str]) -> ListeningSockets:
    """Return the sockets that systemd opened, and open the unix socket as configured.

    :raises ConfigError: a socket from systemd cannot be used. :raises OSError: the unix socket cannot be made.
    """
    passed = _passed_by_systemd(environment)
    has_unix = any(given.family == socket.AF_UNIX for given in passed)
    has_tcp = any(given.family != socket.AF_UNIX for given in passed)
    _check(passed, http)
    address = None if has_tcp else http.listen
    if http.socket is None or has_unix:
        return ListeningSockets(address, passed)
    return ListeningSockets(address, (*passed, _unix_socket(http.socket)), http.socket)


def _passed_by_systemd(environment: Mapping[str, str]) -> tuple[socket.socket, ...]:
    """Return the sockets by the protocol of ``sd_listen_fds``: none if ``LISTEN_PID`` names another process."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return ()
    count = int(environment.get("LISTEN_FDS", "0"))
    passed = tuple(socket.socket(fileno=fd) for fd in range(_FIRST_FD, _FIRST_FD + count))
    for given in passed:
        given.set_inheritable(False)
        given.setblocking(False)
    return passed


def _check(passed: tuple[socket.socket, ...], http: HttpConfig) -> None:
    given = [name for name in http.__struct_fields__ if getattr(http, name) is not None]
    problems = []
    for each in passed:
        if not each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            problems.append("systemd passed on a socket that does not listen; the unit needs ListenStream=")
        elif each.family != socket.AF_UNIX and not _address(each).is_loopback:
            problems += unprotected(f"ListenStream={_address(each)}", given)
    if problems:
        for each in passed:
            each.close()
        raise ConfigError(problems)


def _address(opened: socket.socket) -> Address:
    host, port = opened.getsockname()[:2]
    return Address(host, port)


def _unix_socket(path: Path) -> socket.socket:
    """Make the socket. Its mode is set before it listens, and so before a client can connect."""
    _remove_abandoned(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(_SOCKET_MODE)
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"http.socket: {error.strerror}", str(path)) from error
    made.setblocking(False)
    return made


def _remove_abandoned(path: Path) -> None:
    """Remove the file of a killed process. :raises OSError: another process listens on it, or it is not a socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(f"http.socket: {path} exists and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(f"http.socket: another process listens on {path}")


# -- TLS ---------------------------------------------------------------------------------------------------------------


class ServerTls:
    """The TLS context for new connections, read again when its files change; open connections keep their context."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """Read PEM files. :raises ConfigError: the files cannot be read, or do not belong together."""
        self._certificate: Final = certificate
        self._key: Final = key
        self._client_ca: Final = client_ca
        self._context = self._read()
        self._stamps = self._stat()

    @classmethod
    def configured(cls, http: HttpConfig) -> "ServerTls | None":
        """Read the files of the configuration. :raises ConfigError: they cannot be used."""
        if http.tls_certificate is None or http.tls_key is None:
            return None
        return cls(http.tls_certificate, http.tls_key, http.tls_client_ca)

    def context(self) -> ssl.SSLContext:
        """Return the context of the current files, or of the last files that could be used."""
        stamps = self._stat()
        if stamps is not None and stamps != self._stamps:
            self._stamps = stamps
            try:
                self.reload()
            except ConfigError as error:
                log.error("certificate reload failed", problem=str(error), next="the old certificate stays in use")
        return self._context

    def reload(self) -> None:
        """Read the files now. :raises ConfigError: they cannot be used; the old ones stay in use."""
        self._context = self._read()
        self._stamps = self._stat()
        log.info("read certificate", file=str(self._certificate))

    def _stat(self) -> tuple[object, ...] | None:
        """Return a value that changes when a file is written or replaced; None while a file is missing."""
        files = filter(None, [self._certificate, self._key, self._client_ca])
        try:
            return tuple((found.st_ino, found.st_size, found.st_mtime_ns) for found in map(Path.stat, files))
        except OSError:
            return None

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            pair = f"http.tls_certificate {self._certificate} with http.tls_key {self._key}"
            raise ConfigError([f"{pair}: {error}; both must be PEM, readable, and belong together"]) from error
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self._client_ca)
            except (OSError, ValueError) as error:
                raise ConfigError([f"http.tls_client_ca {self._client_ca}: {error}; it must be PEM"]) from error
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted, and the daemon cannot ask for its password")
