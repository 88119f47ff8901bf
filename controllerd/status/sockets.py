"""Where the HTTP endpoint listens: its address, its unix socket, and sockets that systemd opened for it."""

import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controllerd.config.checks import unprotected
from controllerd.config.model import Address, HttpConfig
from controllerd.errors import ConfigError

_FIRST_FD: Final = 3
_SOCKET_MODE: Final = 0o660


@dataclass(frozen=True, slots=True)
class Sockets:
    """What is open already; ``address`` is None where systemd opened one in its place."""

    address: Address | None
    opened: tuple[socket.socket, ...] = ()
    made: Path | None = None
    """The unix socket's file, which is ours to remove."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        addresses = [_address(opened) for opened in self.opened if opened.family != socket.AF_UNIX]
        addresses += [self.address] if self.address else []
        return all(address.is_loopback for address in addresses)

    def close(self) -> None:
        """Close them; a socket's file that we made is removed."""
        for opened in self.opened:
            opened.close()
        if self.made is not None:
            self.made.unlink(missing_ok=True)


def open_sockets(http: HttpConfig, environment: Mapping[str, str]) -> Sockets:
    """What systemd passed on, and the rest as configured.

    :raises ConfigError: systemd passed on what cannot be served. :raises OSError: the unix socket cannot be made.
    """
    passed = _passed_on(environment)
    has_unix = any(given.family == socket.AF_UNIX for given in passed)
    has_tcp = any(given.family != socket.AF_UNIX for given in passed)
    _check(passed, http)
    if http.socket is None or has_unix:
        return Sockets(None if has_tcp else http.listen, passed)
    return Sockets(None if has_tcp else http.listen, (*passed, _unix_socket(http.socket)), http.socket)


def _passed_on(environment: Mapping[str, str]) -> tuple[socket.socket, ...]:
    """The protocol of ``sd_listen_fds``: meant for us only if the process id is ours."""
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
    """Nobody can connect before it listens, and by then its mode is set."""
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
    """What a killed process left behind. :raises OSError: somebody listens on it, or it is no socket."""
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
