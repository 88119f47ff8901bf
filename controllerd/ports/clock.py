"""Clocks, and timers that enqueue events after a delay."""

from typing import Protocol

from events.base import Event


class Clock(Protocol):
    """The time, which is injected so that tests can set it."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970, for display only."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class Timers(Protocol):
    """Enqueue events after a delay."""

    def put_later(self, delay_s: float, event: Event) -> None:
        """Enqueue ``event`` after a delay in seconds, unless an equal one comes earlier or timers are cleared."""
        ...

    def clear(self) -> None:
        """Cancel all timers."""
        ...
