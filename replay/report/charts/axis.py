"""The time axis of a chart: the position of a moment in percent of the width, and the labelled moments."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

_S: Final = 1000
_M: Final = 60 * _S
_H: Final = 60 * _M
_D: Final = 24 * _H
STEPS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_S, 2 * _S, 5 * _S, 10 * _S, 15 * _S, 30 * _S),
    *(_M, 2 * _M, 5 * _M, 10 * _M, 15 * _M, 30 * _M),
    *(_H, 2 * _H, 3 * _H, 6 * _H, 12 * _H),
    *(_D, 2 * _D, 7 * _D, 14 * _D, 30 * _D, 90 * _D, 365 * _D),
)
MOST_TICKS: Final = 8


class Tick(NamedTuple):
    """A labelled moment; the label is placed so that it stays inside of the chart."""

    x: float
    label: str
    anchor: str


class Axis(NamedTuple):
    """From ``start_ms`` to ``end_ms``, which is later."""

    start_ms: int
    end_ms: int

    @staticmethod
    def over(start_ms: int, end_ms: int, margin: float = 0.0) -> "Axis":
        """Return an axis of at least a second, with a margin on both sides, in parts of the length."""
        pad = max(int((end_ms - start_ms) * margin), max(0, _S - (end_ms - start_ms)) // 2 + 1)
        return Axis(start_ms - pad, end_ms + pad)

    def x(self, ms: int) -> float:
        """Percent of the width, within 0 and 100."""
        return round(min(100.0, max(0.0, (ms - self.start_ms) * 100 / (self.end_ms - self.start_ms))), 3)

    def ticks(self) -> list[Tick]:
        """Round moments in UTC, at most ``MOST_TICKS``."""
        length = self.end_ms - self.start_ms
        step = next((s for s in STEPS if length // s < MOST_TICKS), length)
        first = -(-self.start_ms // step) * step
        return [self._tick(ms, step) for ms in range(first, self.end_ms + 1, step)]

    def _tick(self, ms: int, step: int) -> Tick:
        x = self.x(ms)
        return Tick(x, label(ms, step), "start" if x < 4 else "end" if x > 96 else "middle")


def label(ms: int, step_ms: int) -> str:
    """Return the label of a moment, as precise as the step between two labels; midnight is a date."""
    try:
        moment = datetime.fromtimestamp(ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):  # no calendar has it
        return f"{ms} ms"
    if ms % _D == 0:
        return f"{moment:%Y-%m-%d}"
    if step_ms >= _M:
        return f"{moment:%H:%M}"
    return f"{moment:%H:%M:%S}" if step_ms >= _S else f"{moment:%H:%M:%S}.{ms % 1000:03d}"
