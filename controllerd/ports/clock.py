"""Time: clocks, and events that come later."""

from typing import Protocol

from events.base import Event


class Clock(Protocol):
    """Time, injected."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970, for display only."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class Timers(Protocol):
    """Events that come later by themselves."""

    def put_later(self, delay_s: float, event: Event) -> None:
        """Enqueue ``event`` after a delay in seconds, unless the timers are cleared or an equal one comes earlier."""
        ...

    def clear(self) -> None:
        """Forget all events that were put for later."""
        ...
