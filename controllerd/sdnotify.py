"""Notifies systemd of readiness, status, progress and stopping. Does nothing if systemd did not start the process."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Final, Self

import structlog

log = structlog.get_logger(__name__)

_MICROSECONDS: Final = 1_000_000
_NANOSECONDS_PER_MICROSECOND: Final = 1_000


class Notifier:
    """Sends datagrams to the notify socket (sd_notify(3)); never blocks and never raises.

    ``watchdog_interval_s`` is the interval for calls of ``watchdog``: half of the time that systemd allows. None if
    systemd has no watchdog for this process.
    """

    def __init__(self, address: str | None, watchdog_interval_s: float | None = None) -> None:
        """``address`` as in ``NOTIFY_SOCKET``: a path, or a name of the abstract namespace that starts with ``@``."""
        self._address: Final = f"\0{address[1:]}" if address and address.startswith("@") else address
        self.watchdog_interval_s: Final = watchdog_interval_s

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """The notifier that systemd's variables describe."""
        return cls(env.get("NOTIFY_SOCKET") or None, _watchdog_interval_s(env))

    def ready(self, status: str) -> None:
        """Report that the daemon is ready, as the active or a standby controller."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        self._send(f"STATUS={_one_line(text)}")

    def watchdog(self) -> None:
        """Feed the watchdog: the event worker has made progress."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Report that a reload has begun; ``ready`` reports its end."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // _NANOSECONDS_PER_MICROSECOND}")

    def extend_timeout(self, seconds: float) -> None:
        """Extend the start timeout, counted from now."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(seconds * _MICROSECONDS)}")

    def stopping(self) -> None:
        """Report that the daemon has begun to stop."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("failed to notify systemd", message=message, error=str(error))


def _watchdog_interval_s(env: Mapping[str, str]) -> float | None:
    allowed_us, watched_pid = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", str(os.getpid()))
    if not allowed_us.isdecimal() or int(allowed_us) == 0 or watched_pid != str(os.getpid()):
        return None
    return int(allowed_us) / _MICROSECONDS / 2


def _one_line(text: str) -> str:
    return " ".join(text.split())
