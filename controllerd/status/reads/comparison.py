"""The result and the progress of a comparison of ZooKeeper, this instance's memory, and brokers' metadata.

These types connect the daemon, which compares, with ``/v1/diff``, which shows the result and the progress.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.slicer import loop_time

WAITING: Final = "waiting for its turn"
_MEASURABLE_S: Final = 1.0
"""The speed is not estimated from a shorter time."""


class Differing(NamedTuple):
    """A value that differs between the sources; None: the source does not have it."""

    subject: str
    """``payments-7``, a topic, or ``broker 3``."""
    field: str
    zookeeper: str | None
    memory: str | None
    broker: str | None = None
    """The value in a broker's metadata, with the broker's id; None if no broker was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result: the differences that were found twice, with some seconds in between."""

    differences: tuple[Differing, ...]
    partitions: int
    """The number of partitions that were compared."""
    brokers: tuple[int, ...]
    """The brokers whose metadata was compared."""
    unanswered: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """The brokers that did not answer, each with the reason."""


class ComparisonProgress:
    """The progress of one comparison.

    Work is counted in units of any size. More work may become known later. The percentage does not decrease then; the
    remaining percentage is distributed over all remaining work.
    """

    def __init__(self, clock: Callable[[], float] = loop_time) -> None:
        """``clock`` returns monotonic seconds."""
        self.stage = WAITING
        """The present stage, as a text for people."""
        self._clock = clock
        self._began: float | None = None
        self._pause_s = 0.0
        self._known = self._passed = self._work = self._part = 0.0
        self._share_from = (0.0, 0.0)

    def expect(self, work: float, pause_s: float = 0.0) -> None:
        """Add expected work, and a pause. The first call starts the clock."""
        if self._began is None:
            self._began = self._clock()
        self._share_from = (self.percent or 0.0, self._done)
        self._known += work
        self._pause_s += pause_s

    def enter(self, stage: str, work: float = 0.0) -> None:
        """End the present stage, and begin one with this share of the expected work."""
        self._passed += self._work
        self.stage, self._work, self._part = stage, work, 0.0

    def advance(self, part: float) -> None:
        """Report the completed part of this stage, from 0 to 1; a smaller part than before is ignored."""
        self._part = max(self._part, min(part, 1.0))

    def resume(self) -> None:
        """End the pause, whose time does not count for the speed."""
        if self._began is not None:
            self._began += self._pause_s
        self._pause_s = 0.0

    @property
    def percent(self) -> float | None:
        """The completed percentage of all expected work; None before the comparison begins."""
        if not self._known:
            return None
        share, done = self._share_from
        left = max(self._known, self._done) - done  # more work may be completed than was expected
        return share + (100.0 - share) * (self._done - done) / left if left else share

    @property
    def eta_s(self) -> float | None:
        """The remaining time at the speed so far, with the remaining pause; None while the speed is unknown."""
        if self._began is None or not self._done or (took := self._clock() - self._began) < _MEASURABLE_S:
            return None
        return took * max(0.0, self._known - self._done) / self._done + self._pause_s

    @property
    def _done(self) -> float:
        return self._passed + self._work * self._part


Compare = Callable[[bool, ComparisonProgress], Awaitable[Comparison]]
"""Compares now, with or without brokers, and reports its progress.

:raises StoreUnavailable: ZooKeeper does not answer.
"""
