"""The secrets that open the HTTP endpoint: where they are read, and whether what somebody sent is one of them."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from controllerd.config.model import HttpConfig, Secret
from controllerd.config.values import SHORTEST_SECRET
from controllerd.errors import ConfigError

_MAKE_ONE: Final = "make one with: openssl rand -hex 32"


class Rank(IntEnum):
    """What somebody may do; each rank may do what those below it may."""

    NONE = 0
    READ = 1
    ADMIN = 2


class Credentials(NamedTuple):
    """What somebody sent: a token, and the name that came with it."""

    token: str
    user: str | None = None


class Tokens:
    """The tokens of both kinds; None where there is none."""

    def __init__(self, read: str | None = None, admin: str | None = None) -> None:
        self._by_rank: Final = {Rank.READ: read, Rank.ADMIN: admin}

    @classmethod
    def configured(cls, http: HttpConfig, environment: Mapping[str, str]) -> "Tokens":
        """As the configuration says. :raises ConfigError: one of them cannot be read, or both are the same."""
        problems: list[str] = []
        found = {key: _read(key, getattr(http, key), environment, problems) for key in ("read_token", "admin_token")}
        if found["read_token"] is not None and found["read_token"] == found["admin_token"]:
            problems.append(f"http.read_token is http.admin_token: who may look could do everything; {_MAKE_ONE}")
        if problems:
            raise ConfigError(problems)
        return cls(found["read_token"], found["admin_token"])

    def has(self, rank: Rank) -> bool:
        """Whether there is a token of this rank."""
        return self._by_rank[rank] is not None

    def rank_of(self, credentials: Credentials) -> Rank:
        """What the token is good for. The time that this takes tells nothing about the tokens."""
        sent = credentials.token.encode(errors="surrogateescape")
        ranks = [
            rank
            for rank, token in self._by_rank.items()
            if hmac.compare_digest(sent, (token or "").encode()) and token is not None
        ]
        return max(ranks, default=Rank.NONE)


def credentials_of(header: str | None) -> Credentials | None:
    """What an ``Authorization`` header holds, ``Bearer`` or ``Basic``; None for anything else."""
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
    if secret is None:
        return None
    if not secret.is_reference:
        return secret.configured
    kind, _, name = secret.configured.partition(":")
    file = Path(name)
    if kind == "credential":
        folder = environment.get("CREDENTIALS_DIRECTORY")
        if not folder:
            problems.append(f"http.{key}: {secret} needs LoadCredential={name}:PATH in the unit of systemd")
            return None
        file = Path(folder, name)
    return _content(key, secret, file, problems)


def _content(key: str, secret: Secret, file: Path, problems: list[str]) -> str | None:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"http.{key}: {secret}: cannot be read: {error}")
        return None
    if len(token) < SHORTEST_SECRET:
        problems.append(f"http.{key}: {secret}: is shorter than {SHORTEST_SECRET} characters; {_MAKE_ONE}")
    return token
