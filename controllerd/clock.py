"""Time as the daemon has it: the system's clocks, and events that come later."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from events.base import Event


@lru_cache(maxsize=1_024)
def iso(epoch_ms: int) -> str:
    """A time as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemClock:
    """The wall clock and the monotonic clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for display only: it may step."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class LoopTimers:
    """Puts events into the queue after a delay, on the running event loop."""

    def __init__(self, put: Callable[[Event], None]) -> None:
        self._put = put
        self._handles: dict[Event, asyncio.TimerHandle] = {}

    def put_later(self, delay_s: float, event: Event) -> None:
        """Enqueue ``event`` after ``delay_s`` seconds, unless an equal one is on its way already."""
        if event in self._handles:
            return

        def fire() -> None:
            del self._handles[event]
            self._put(event)

        self._handles[event] = asyncio.get_running_loop().call_later(delay_s, fire)

    def clear(self) -> None:
        """Forget everything that was put for later."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
