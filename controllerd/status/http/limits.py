"""Limits for each connection, each peer and all of them: time to send, time to read, number of connections.

aiohttp limits the size of lines, headers and bodies, but not their time nor the number of connections. A connection
counts from the moment it is accepted, so that a connection that never ends its TLS handshake counts as well.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from controllerd.status.http.problems import Refused

_HINT: Final = "close streams that are not needed, and repeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits: numbers of connections, and seconds."""

    connections: int = 200
    per_peer: int = 32
    """Connections from one address, or from one user of the unix socket."""
    streams: int = 50
    """Responses that continue until the client disconnects (SSE)."""
    streams_per_peer: int = 16
    handshake_s: float = 10.0
    head_s: float = 10.0
    """From the first byte of a request (or from connecting) to the end of its head."""
    body_s: float = 30.0
    """From the end of the head to the end of the body."""
    unread_s: float = 30.0
    """From the moment that the client stops reading to the end of the connection."""
    keep_alive_s: float = 75.0
    """Between two requests of one connection."""


DEFAULT_LIMITS: Final = Limits()


class ConnectionSlot:
    """One connection as the limiter counts it."""

    __slots__ = ("peer", "transport")

    def __init__(self, peer: str, transport: asyncio.BaseTransport) -> None:
        self.peer = peer
        self.transport = transport

    def abort(self) -> None:
        """Close the connection now, and drop the output that is not sent yet."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        else:
            self.transport.close()


class ConnectionLimiter:
    """Counts connections and streams; at the limit it closes the connection that has been idle for longest."""

    def __init__(self, limits: Limits) -> None:
        self.limits: Final = limits
        self.closed: Final[Counter[str]] = Counter()
        """The number of connections that were closed or not served, by cause."""
        self._idle: dict[ConnectionSlot, None] = {}
        self._busy: set[ConnectionSlot] = set()
        self._of_peer: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    @property
    def connections(self) -> int:
        """The number of connections, idle ones included."""
        return len(self._idle) + len(self._busy)

    def add(self, slot: ConnectionSlot) -> bool:
        """Count a new connection, and return True; return False if the limits do not permit it."""
        is_full = self.connections >= self.limits.connections
        has_many = self._of_peer[slot.peer] >= self.limits.per_peer
        if (has_many and not self._close_idle(slot.peer)) or (is_full and not has_many and not self._close_idle()):
            self.closed["too many connections"] += 1
            return False
        self._idle[slot] = None
        self._of_peer[slot.peer] += 1
        return True

    def remove(self, slot: ConnectionSlot) -> None:
        """Remove a closed connection. Harmless for a connection that is not counted."""
        if slot in self._idle or slot in self._busy:
            self._idle.pop(slot, None)
            self._busy.discard(slot)
            _decrement(self._of_peer, slot.peer)

    def mark_busy(self, slot: ConnectionSlot) -> None:
        """Mark that a request of this connection is being served."""
        if slot in self._idle:
            del self._idle[slot]
            self._busy.add(slot)

    def mark_idle(self, slot: ConnectionSlot) -> None:
        """Mark that the request was served."""
        if slot in self._busy:
            self._busy.discard(slot)
            self._idle[slot] = None

    def close(self) -> None:
        """Close all connections."""
        for slot in [*self._idle, *self._busy]:
            self.remove(slot)
            slot.abort()

    def _close_idle(self, peer: str | None = None) -> bool:
        """Close the connection (of this peer) that has been idle for longest; return False when none is idle."""
        oldest = next((slot for slot in self._idle if peer in {None, slot.peer}), None)
        if oldest is None:
            return False
        self.closed["idle, to make room"] += 1
        self.remove(oldest)
        oldest.abort()
        return True

    @contextmanager
    def streaming(self, peer: str) -> Iterator[None]:
        """Count one stream while it lasts. :raises Refused: there are too many streams."""
        if self._streams.total() >= self.limits.streams:
            self._refuse_stream(f"{self.limits.streams} streams are open, and no more are served")
        if self._streams[peer] >= self.limits.streams_per_peer:
            self._refuse_stream(f"{peer} has {self.limits.streams_per_peer} open streams, and gets no more")
        self._streams[peer] += 1
        try:
            yield
        finally:
            _decrement(self._streams, peer)

    def _refuse_stream(self, detail: str) -> None:
        self.closed["too many streams"] += 1
        raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_streams", detail, _HINT)


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
