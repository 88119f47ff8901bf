"""What one connection, one peer and all of them together may cost: time to send, time to read, and places.

aiohttp limits lines, headers and bodies, but not how long they may take nor how many connections there are. Each
connection is counted from the moment it is accepted, so that one that stops within its TLS handshake counts as well.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from controllerd.status.problems import Refused

_HINT: Final = "close what is not needed, and repeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Numbers and seconds."""

    connections: int = 200
    per_peer: int = 32
    """Connections of one address, or of one user of the unix socket."""
    streams: int = 50
    """Answers that go on until the client leaves (SSE)."""
    streams_per_peer: int = 16
    handshake_s: float = 10.0
    head_s: float = 10.0
    """From the first byte of a request (or from connecting) to the end of its head."""
    body_s: float = 30.0
    """From the end of the head to the end of the body."""
    unread_s: float = 30.0
    """For how long a client may not read what it was sent."""
    keep_alive_s: float = 75.0
    """Between two requests of one connection."""


DEFAULT_LIMITS: Final = Limits()


class Visit:
    """One connection as the door knows it."""

    __slots__ = ("peer", "transport")

    def __init__(self, peer: str, transport: asyncio.BaseTransport) -> None:
        self.peer = peer
        self.transport = transport

    def end(self) -> None:
        """Close it now, whatever it has not been sent yet."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        else:
            self.transport.close()


class Door:
    """Counts connections and streams; where there are too many connections, the one longest idle makes room."""

    def __init__(self, limits: Limits) -> None:
        self.limits: Final = limits
        self.turned_away: Final[Counter[str]] = Counter()
        """How many connections were closed or not served, by cause."""
        self._idle: dict[Visit, None] = {}
        self._busy: set[Visit] = set()
        self._of_peer: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    @property
    def connections(self) -> int:
        """All of them, idle ones included."""
        return len(self._idle) + len(self._busy)

    def enter(self, visit: Visit) -> bool:
        """Whether there is room for one more."""
        is_full = self.connections >= self.limits.connections
        has_many = self._of_peer[visit.peer] >= self.limits.per_peer
        if (has_many and not self._make_room(visit.peer)) or (is_full and not has_many and not self._make_room()):
            self.turned_away["too many connections"] += 1
            return False
        self._idle[visit] = None
        self._of_peer[visit.peer] += 1
        return True

    def leave(self, visit: Visit) -> None:
        """It is closed. Harmless for one that is not there."""
        if visit not in self._idle and visit not in self._busy:
            return
        self._idle.pop(visit, None)
        self._busy.discard(visit)
        _less(self._of_peer, visit.peer)

    def work(self, visit: Visit) -> None:
        """It has sent a request."""
        if visit in self._idle:
            del self._idle[visit]
            self._busy.add(visit)

    def rest(self, visit: Visit) -> None:
        """Its request is answered."""
        if visit in self._busy:
            self._busy.discard(visit)
            self._idle[visit] = None

    def close(self) -> None:
        """End all of them."""
        for visit in [*self._idle, *self._busy]:
            self.leave(visit)
            visit.end()

    def _make_room(self, peer: str | None = None) -> bool:
        """End the connection (of this peer) that has been idle for longest; False when none is."""
        oldest = next((visit for visit in self._idle if peer in {None, visit.peer}), None)
        if oldest is None:
            return False
        self.turned_away["idle, to make room"] += 1
        self.leave(oldest)
        oldest.end()
        return True

    @contextmanager
    def streaming(self, peer: str) -> Iterator[None]:
        """While an answer goes on. :raises Refused: there are too many of them."""
        if self._streams.total() >= self.limits.streams:
            self._refuse_stream(f"{self.limits.streams} streams are open, and no more are served")
        if self._streams[peer] >= self.limits.streams_per_peer:
            self._refuse_stream(f"{peer} has {self.limits.streams_per_peer} open streams, and gets no more")
        self._streams[peer] += 1
        try:
            yield
        finally:
            _less(self._streams, peer)

    def _refuse_stream(self, detail: str) -> None:
        self.turned_away["too many streams"] += 1
        raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_streams", detail, _HINT)


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
