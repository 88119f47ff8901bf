"""The native protocol of systemd's journal: a datagram with fields per entry, or a sealed memory file for a long one.

See systemd.io/JOURNAL_NATIVE_PROTOCOL. Fields may repeat.
"""

import array
import errno
import fcntl
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SOCKET: Final = Path("/run/systemd/journal/socket")
_TOO_LONG: Final = frozenset({errno.EMSGSIZE, errno.ENOBUFS})
_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

Field = tuple[str, str]
"""A name of capital letters, digits and underscores, and its value."""


class SystemdJournal:
    """Sends entries to the journal without blocking."""

    def __init__(self, path: Path = SOCKET) -> None:
        self._path: Final = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def send(self, fields: Iterable[Field]) -> None:
        """Send one entry. :raises OSError: it was not sent; ``BlockingIOError`` if journald cannot keep up."""
        entry = encoded(fields)
        try:
            self._socket.sendto(entry, self._path)
        except OSError as error:
            if error.errno not in _TOO_LONG:
                raise
            self._send_file(entry)

    def _send_file(self, entry: bytes) -> None:
        with os.fdopen(os.memfd_create("journal-entry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "wb") as file:
            file.write(entry)
            file.flush()
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            passed = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))
            self._socket.sendmsg([], [passed], 0, self._path)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def encoded(fields: Iterable[Field]) -> bytes:
    """Encode an entry. Values with line breaks are preceded by their length."""
    return b"".join(_encoded(name.encode(), value.encode(errors="replace")) for name, value in fields)


def _encoded(name: bytes, value: bytes) -> bytes:
    if b"\n" not in value:
        return b"%b=%b\n" % (name, value)
    return b"%b\n%b%b\n" % (name, len(value).to_bytes(8, "little"), value)
