"""The clocks of the system, and timers that put events into the queue."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from events.base import Event


@lru_cache(maxsize=1_024)
def iso(epoch_ms: int) -> str:
    """Format a time as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemClock:
    """The wall clock and the monotonic clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for display only: it may step."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()


class LoopTimers:
    """Puts events into the queue after a delay, on the running event loop.

    Of equal events only the earliest is kept. A retry that is due in 30 s must not wait for an equal one that was
    delayed by 600 s for another reason. Dropping the later one is safe: the handler of a recurring event checks all
    waiting work, and delays the event again for the rest.
    """

    def __init__(self, put: Callable[[Event], None]) -> None:
        self._put = put
        self._handles: dict[Event, asyncio.TimerHandle] = {}

    def put_later(self, delay_s: float, event: Event) -> None:
        """Enqueue ``event`` after ``delay_s`` seconds, unless an equal one comes earlier."""
        loop = asyncio.get_running_loop()
        due, pending = loop.time() + delay_s, self._handles.get(event)
        if pending is not None:
            if pending.when() <= due:
                return
            pending.cancel()
        self._handles[event] = loop.call_at(due, self._fire, event)

    def _fire(self, event: Event) -> None:
        del self._handles[event]
        self._put(event)

    def clear(self) -> None:
        """Drop all delayed events."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
