"""Keys that make repetitions harmless: the same key with the same request stands for the task that it began."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self

from aiohttp import web

from controllerd.status.problems import Refused
from controllerd.status.tasks import LiveTask

HEADER: Final = "Idempotency-Key"
KEPT_MS: Final = 24 * 3_600_000
MAX_KEYS: Final = 10_000
MAX_LENGTH: Final = 255


@dataclass(slots=True)
class _Used:
    fingerprint: bytes
    at_ms: int
    task: LiveTask | None = None
    """None while the first request with this key is being looked at."""


class KeyBook:
    """The keys of the last 24 hours; of more than ``MAX_KEYS`` the oldest are forgotten."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms`` is the wall clock."""
        self._now_ms = now_ms
        self._used: dict[tuple[str, str], _Used] = {}

    async def claim(self, request: web.Request, principal: str) -> "Claim":
        """What the request's key stands for, and the key for this request if nothing.

        :raises Refused: the key was used for another request, or the first one with it is not admitted yet.
        """
        key = request.headers.get(HEADER)
        if key is None:
            return Claim(self, None, None)
        if not 0 < len(key) <= MAX_LENGTH or not key.isascii() or not key.isprintable():
            detail = f"{HEADER} must have 1 to {MAX_LENGTH} printable ASCII characters"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        return self._claim((principal, key), _fingerprint(request, await request.read()))

    def _claim(self, name: tuple[str, str], fingerprint: bytes) -> "Claim":
        self._sweep()
        used = self._used.get(name)
        if used is None:
            self._used[name] = _Used(fingerprint, self._now_ms())
            return Claim(self, name, None)
        if used.fingerprint != fingerprint:
            detail = f"the key {name[1]!r} was used for another request within the last 24 hours"
            raise Refused(HTTPStatus.CONFLICT, "idempotency_key_reused", detail, "use a new key for a new request")
        if used.task is None:
            detail = f"the first request with the key {name[1]!r} is still being looked at"
            raise Refused(HTTPStatus.CONFLICT, "idempotency_key_in_use", detail, "repeat in a moment")
        return Claim(self, name, used.task)

    def keep(self, name: tuple[str, str], task: LiveTask | None) -> None:
        """The task that the key stands for from now on; None frees the key."""
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


class Claim:
    """A key as one request has it; leaving the block without a task frees the key."""

    def __init__(self, book: KeyBook, name: tuple[str, str] | None, earlier: LiveTask | None) -> None:
        self._book = book
        self._name = name
        self.earlier: Final = earlier
        """The task that an earlier request with this key began; None for a new key, or no key."""
        self._begun = earlier

    def __enter__(self) -> Self:
        return self

    def stands_for(self, task: LiveTask) -> None:
        """This task was begun."""
        self._begun = task

    def __exit__(self, *_: object) -> None:
        if self._name is not None:
            self._book.keep(self._name, self._begun)


def _fingerprint(request: web.Request, body: bytes) -> bytes:
    return hashlib.sha256(f"{request.method} {request.path}\n".encode() + body).digest()
