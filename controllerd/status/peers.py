"""Who is at the other end of a connection, as the operating system says."""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Final

_CREDENTIALS: Final = struct.Struct("3i")
"""``struct ucred``: pid, uid, gid."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An address, or for the unix socket a user."""

    address: str
    user_id: int | None = None
    """None: the connection did not come over a unix socket."""
    process: int | None = None
    certificate: str | None = None
    """The common name in the client's certificate, which was verified."""

    @property
    def is_local_user(self) -> bool:
        """Whether the system knows who it is."""
        return self.user_id is not None

    def __str__(self) -> str:
        return self.address if self.user_id is None else f"uid {self.user_id}"


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Whom we talk to."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family == socket.AF_UNIX:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(raw)
        return Peer("unix socket", user, process)
    address = transport.get_extra_info("peername")
    certificate = transport.get_extra_info("peercert")
    return Peer(address[0] if address else "unknown", certificate=_common_name(certificate) if certificate else None)


def _common_name(certificate: dict[str, tuple[tuple[tuple[str, str], ...], ...]]) -> str | None:
    names = (pair for part in certificate.get("subject", ()) for pair in part)
    return next((value for kind, value in names if kind == "commonName"), None)
