"""The identity of a client: the address or user that the operating system reports, and the token that it sent."""

import asyncio
import base64
import binascii
import hmac
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from controllerd.config.model import HttpConfig, Secret
from controllerd.config.values import SHORTEST_SECRET
from controllerd.errors import ConfigError

_UCRED: Final = struct.Struct("3i")
"""``struct ucred``: pid, uid, gid."""
_MAKE_ONE: Final = "make one with: openssl rand -hex 32"


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a connection: its address, or its user on the unix socket."""

    address: str
    user_id: int | None = None
    """None: the connection did not come over a unix socket."""
    process: int | None = None
    certificate: str | None = None
    """The common name in the verified certificate of the client."""

    @property
    def is_local_user(self) -> bool:
        """Whether the operating system identified the user."""
        return self.user_id is not None

    def __str__(self) -> str:
        return self.address if self.user_id is None else f"uid {self.user_id}"


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Return the client of a connection."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family == socket.AF_UNIX:
        process, user, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return Peer("unix socket", user, process)
    address, certificate = transport.get_extra_info("peername"), transport.get_extra_info("peercert")
    names = (pair for part in (certificate or {}).get("subject", ()) for pair in part)
    common_name = next((value for kind, value in names if kind == "commonName"), None)
    return Peer(address[0] if address else "unknown", certificate=common_name)


class Rank(IntEnum):
    """The rights of a client; each rank includes those below it."""

    NONE = 0
    READ = 1
    ADMIN = 2


class Credentials(NamedTuple):
    """A token that a client sent, and the user name beside it."""

    token: str
    user: str | None = None


class Tokens:
    """The read token and the admin token; None where one is not configured."""

    def __init__(self, read: str | None = None, admin: str | None = None) -> None:
        self._by_rank: Final = {Rank.READ: read, Rank.ADMIN: admin}

    @classmethod
    def configured(cls, http: HttpConfig, environment: Mapping[str, str]) -> "Tokens":
        """Read the tokens of the configuration. :raises ConfigError: one cannot be read, or both are the same."""
        problems: list[str] = []
        found = {key: _read(key, getattr(http, key), environment, problems) for key in ("read_token", "admin_token")}
        if found["read_token"] is not None and found["read_token"] == found["admin_token"]:
            problems.append(f"http.read_token equals http.admin_token: readers could use every verb; {_MAKE_ONE}")
        if problems:
            raise ConfigError(problems)
        return cls(found["read_token"], found["admin_token"])

    def has(self, rank: Rank) -> bool:
        """Whether there is a token of this rank."""
        return self._by_rank[rank] is not None

    def rank_of(self, credentials: Credentials) -> Rank:
        """Return the rank of a token, in a time that does not depend on the tokens."""
        sent = credentials.token.encode(errors="surrogateescape")
        ranks = [
            rank
            for rank, token in self._by_rank.items()
            if hmac.compare_digest(sent, (token or "").encode()) and token is not None
        ]
        return max(ranks, default=Rank.NONE)


def credentials_of(header: str | None) -> Credentials | None:
    """Return the content of an ``Authorization`` header, ``Bearer`` or ``Basic``; None for anything else."""
    scheme, _, value = (header or "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return Credentials(value.strip())
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, token = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(token, user or None) if colon else None


def _read(key: str, secret: Secret | None, environment: Mapping[str, str], problems: list[str]) -> str | None:
    """Return a token; None without one, or with one more entry in ``problems``."""
    if secret is None or not secret.is_reference:
        return None if secret is None else secret.configured
    kind, _, name = secret.configured.partition(":")
    folder = environment.get("CREDENTIALS_DIRECTORY") if kind == "credential" else "."
    if not folder:
        problems.append(f"http.{key}: {secret} needs LoadCredential={name}:PATH in the unit of systemd")
        return None
    try:
        token = Path(folder, name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"http.{key}: {secret}: cannot be read: {error}")
        return None
    if len(token) < SHORTEST_SECRET:
        problems.append(f"http.{key}: {secret}: is shorter than {SHORTEST_SECRET} characters; {_MAKE_ONE}")
    return token
