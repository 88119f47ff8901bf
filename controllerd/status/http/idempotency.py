"""Idempotency keys: the same key with the same request stands for the task that the first request began."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Generic, Self, TypeVar

from aiohttp import web

from controllerd.status.http.problems import Refused

HEADER: Final = "Idempotency-Key"
KEPT_MS: Final = 24 * 3_600_000
MAX_KEYS: Final = 10_000
MAX_LENGTH: Final = 255

T = TypeVar("T")
"""What a key stands for: a task."""


@dataclass(slots=True)
class _UsedKey(Generic[T]):
    fingerprint: bytes
    at_ms: int
    task: T | None = None
    """None while the first request with this key is being admitted."""


class IdempotencyKeys(Generic[T]):
    """The keys of the last 24 hours; of more than ``MAX_KEYS`` the oldest are forgotten."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms`` is the wall clock."""
        self._now_ms = now_ms
        self._used: dict[tuple[str, str], _UsedKey[T]] = {}

    async def claim(self, request: web.Request, principal: str) -> "ClaimedKey[T]":
        """Claim the key of a request, or find the task that it stands for.

        :raises Refused: the key was used for another request, or the first one with it is not admitted yet.
        """
        key = request.headers.get(HEADER)
        if key is None:
            return ClaimedKey(self, None, None)
        if not 0 < len(key) <= MAX_LENGTH or not key.isascii() or not key.isprintable():
            detail = f"{HEADER} must have 1 to {MAX_LENGTH} printable ASCII characters"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        head = f"{request.method} {request.path}\n".encode()
        return self._claim((principal, key), hashlib.sha256(head + await request.read()).digest())

    def _claim(self, name: tuple[str, str], fingerprint: bytes) -> "ClaimedKey[T]":
        self._sweep()
        used = self._used.get(name)
        if used is None:
            self._used[name] = _UsedKey(fingerprint, self._now_ms())
            return ClaimedKey(self, name, None)
        if used.fingerprint != fingerprint:
            detail = f"the key {name[1]!r} was used for another request within the last 24 hours"
            raise Refused(HTTPStatus.CONFLICT, "idempotency_key_reused", detail, "use a new key for a new request")
        if used.task is None:
            detail = f"the first request with the key {name[1]!r} is still being looked at"
            raise Refused(HTTPStatus.CONFLICT, "idempotency_key_in_use", detail, "repeat in a moment")
        return ClaimedKey(self, name, used.task)

    def keep(self, name: tuple[str, str], task: T | None) -> None:
        """Keep the task that the key stands for from now on; None frees the key."""
        if task is None:
            self._used.pop(name, None)
        elif name in self._used:
            self._used[name].task = task

    def _sweep(self) -> None:
        horizon = self._now_ms() - KEPT_MS
        for name, used in list(self._used.items()):  # in order of their time
            if used.at_ms >= horizon and len(self._used) < MAX_KEYS:
                break
            del self._used[name]


class ClaimedKey(Generic[T]):
    """A key as one request has it; leaving the block without a task frees the key."""

    def __init__(self, keys: IdempotencyKeys[T], name: tuple[str, str] | None, earlier: T | None) -> None:
        self._keys = keys
        self._name = name
        self.earlier: Final = earlier
        """The task that an earlier request with this key began; None for a new key, or no key."""
        self.begun = earlier
        """The task that the key stands for from now on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._name is not None:
            self._keys.keep(self._name, self.begun)
