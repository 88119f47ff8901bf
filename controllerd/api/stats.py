"""What the server did, in numbers for status and metrics, and its complaints about clients, each told once."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from controllerd.api.hang_up import HangUp, Reason
from controllerd.ports import AuditLog
from controllerd.record.records import AlarmRecord

_QUIET: frozenset[Reason] = frozenset({Reason.IDLE, Reason.NO_TARGET, Reason.TARGET_LOST})
"""Everyday ends of connections: counted and logged, but no alarm."""
_REPEAT_S = 60.0
_MAX_REMEMBERED = 1_000
_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerStats:
    """A copy of the counters at one moment."""

    connections: int
    accepted: int
    requests: Mapping[int, int]
    """API key to requests answered."""
    hang_ups: Mapping[str, int]
    """Reason to connections that we closed for it."""


@dataclass(slots=True)
class Ledger:
    """The counters, and the memory of what was complained about."""

    audit: AuditLog
    monotonic: Callable[[], float] = time.monotonic
    accepted: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    hang_ups: Counter[str] = field(default_factory=Counter)
    _told: dict[tuple[Reason, str], float] = field(default_factory=dict)

    def hung_up(self, hang_up: HangUp, peer: str) -> None:
        """A connection was closed. The same reason and host is told once a minute: a flood must not fill the logs."""
        self.hang_ups[hang_up.reason.value] += 1
        key, now = (hang_up.reason, peer.rpartition(":")[0]), self.monotonic()
        if now - self._told.get(key, -_REPEAT_S) < _REPEAT_S:
            return
        if len(self._told) >= _MAX_REMEMBERED:
            self._told.clear()
        self._told[key] = now
        _LOG.warning("client connection closed", reason=hang_up.reason.value, detail=hang_up.detail, peer=peer)
        if hang_up.reason not in _QUIET:
            self.audit.record(
                AlarmRecord(f"client connection closed: {hang_up.reason.value}", f"{peer}: {hang_up.detail}")
            )

    def copy(self, connections: int) -> ServerStats:
        """The counters now."""
        return ServerStats(connections, self.accepted, dict(self.requests), dict(self.hang_ups))
