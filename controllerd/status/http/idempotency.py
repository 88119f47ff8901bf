"""Idempotency keys: a request with the key of an earlier, equal request gets the task of that request."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Generic, TypeVar

from aiohttp import web

from controllerd.status.http.problems import Refused

HEADER: Final = "Idempotency-Key"
KEPT_MS: Final = 24 * 3_600_000
MAX_KEYS: Final = 10_000
MAX_LENGTH: Final = 255

T = TypeVar("T")
"""A task."""


@dataclass(slots=True)
class _UsedKey(Generic[T]):
    fingerprint: bytes
    at_ms: int
    task: T | None = None
    """None while the first request with this key is being admitted."""


@dataclass(slots=True)
class ClaimedKey(Generic[T]):
    """The key of one request, or the absence of a key."""

    task: T | None = None
    """The task of an earlier request with this key, or the task that the request began; None before that."""


class IdempotencyKeys(Generic[T]):
    """The keys of the last 24 hours; beyond ``MAX_KEYS`` the oldest ones are removed."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms`` is the wall clock."""
        self._now_ms = now_ms
        self._used: dict[tuple[str, str], _UsedKey[T]] = {}

    @asynccontextmanager
    async def claim(self, request: web.Request, principal: str) -> AsyncIterator[ClaimedKey[T]]:
        """Claim the key of a request; leaving the block without a task frees the key.

        :raises Refused: the key was used for another request, or its first request is not admitted yet.
        """
        key = request.headers.get(HEADER)
        if key is None:
            yield ClaimedKey()
            return
        if not 0 < len(key) <= MAX_LENGTH or not key.isascii() or not key.isprintable():
            detail = f"{HEADER} must have 1 to {MAX_LENGTH} printable ASCII characters"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        head = f"{request.method} {request.path}\n".encode()
        name = (principal, key)
        claimed = ClaimedKey(self._claim(name, hashlib.sha256(head + await request.read()).digest()))
        try:
            yield claimed
        finally:
            if claimed.task is None:
                self._used.pop(name, None)
            elif name in self._used:
                self._used[name].task = claimed.task

    def _claim(self, name: tuple[str, str], fingerprint: bytes) -> T | None:
        """Return the task of an earlier request with this key; None for a new key."""
        self._sweep()
        used = self._used.get(name)
        if used is None:
            self._used[name] = _UsedKey(fingerprint, self._now_ms())
            return None
        if used.fingerprint != fingerprint:
            detail = f"the key {name[1]!r} was used for another request within the last 24 hours"
            raise Refused(HTTPStatus.CONFLICT, "idempotency_key_reused", detail, "use a new key for a new request")
        if used.task is None:
            detail = f"the first request with the key {name[1]!r} is still being checked"
            raise Refused(HTTPStatus.CONFLICT, "idempotency_key_in_use", detail, "repeat in a moment")
        return used.task

    def _sweep(self) -> None:
        horizon = self._now_ms() - KEPT_MS
        for name, used in list(self._used.items()):  # oldest first
            if used.at_ms >= horizon and len(self._used) < MAX_KEYS:
                break
            del self._used[name]
