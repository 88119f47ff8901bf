"""Close a connection on purpose: the only safe reaction if no exact response is possible."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import structlog

from controllerd.ports.audit import AuditLog
from controllerd.record.records import AlarmRecord


class Reason(Enum):
    """The reasons for which the server closes a connection, as logs and counters name them."""

    MALFORMED = "malformed request"
    FRAME = "bad frame"
    UNKNOWN_API = "unknown api"
    UNSUPPORTED_VERSION = "unsupported version"
    NOT_RELAYED = "api is not relayed"
    NOT_AUTHORIZED = "not authorized"
    NO_TARGET = "no broker to relay to"
    TARGET_LOST = "relay target lost"
    CALL_TIMEOUT = "controller busy"
    NO_ERROR_FIELD = "version cannot tell the error"
    IDLE = "idle"
    SLOW = "slow client"
    TOO_MANY = "too many connections"
    DEFECT = "internal error"


class HangUp(Exception):
    """Close this connection without an answer."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail


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
    """The number of answered requests by API key."""
    hang_ups: Mapping[str, int]
    """The number of closed connections by reason."""


@dataclass(slots=True)
class ServerCounters:
    """The counters of the server, and the times of the latest log lines about clients."""

    audit: AuditLog
    monotonic: Callable[[], float] = time.monotonic
    accepted: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    hang_ups: Counter[str] = field(default_factory=Counter)
    _logged_at: dict[tuple[Reason, str], float] = field(default_factory=dict)

    def hung_up(self, hang_up: HangUp, peer: str) -> None:
        """Count a closed connection, and log it.

        One reason and host is logged once a minute: a flood must not fill logs.
        """
        self.hang_ups[hang_up.reason.value] += 1
        key, now = (hang_up.reason, peer.rpartition(":")[0]), self.monotonic()
        if now - self._logged_at.get(key, -_REPEAT_S) < _REPEAT_S:
            return
        if len(self._logged_at) >= _MAX_REMEMBERED:
            self._logged_at.clear()
        self._logged_at[key] = now
        _LOG.warning("closed client connection", reason=hang_up.reason.value, detail=hang_up.detail, peer=peer)
        if hang_up.reason not in _QUIET:
            self.audit.record(
                AlarmRecord(f"client connection closed: {hang_up.reason.value}", f"{peer}: {hang_up.detail}")
            )

    def copy(self, connections: int) -> ServerStats:
        """Return the current counters."""
        return ServerStats(connections, self.accepted, dict(self.requests), dict(self.hang_ups))
