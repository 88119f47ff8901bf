"""The result and the progress of a comparison of ZooKeeper, this instance's memory, and brokers' metadata.

The types between the daemon, which compares, and ``/v1/diff``, which shows the result and the progress.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.slicer import loop_time

WAITING: Final = "waiting for its turn"
_SLOWLY_S: Final = 1.0
"""Less time says nothing of the speed."""


class Differing(NamedTuple):
    """One thing that is not the same everywhere; None: there is no such thing there."""

    subject: str
    """``payments-7``, a topic, or ``broker 3``."""
    field: str
    zookeeper: str | None
    memory: str | None
    broker: str | None = None
    """What a broker's metadata says, with its id; None where no broker was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result: only differences that two looks, some seconds apart, found alike."""

    differences: tuple[Differing, ...]
    partitions: int
    """How many were compared."""
    brokers: tuple[int, ...]
    """Whose metadata was compared."""
    untold: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """The brokers that did not answer, each with the reason."""


class Progress:
    """How far one comparison has come.

    Work is counted in units of any size. More of it may turn up on the way: the percentage never goes back for it, but
    the rest of the way is shared among all work that is left.
    """

    def __init__(self, clock: Callable[[], float] = loop_time) -> None:
        """``clock`` gives seconds that never go back."""
        self.stage = WAITING
        """What is done now, in words."""
        self._clock = clock
        self._began: float | None = None
        self._pause_s = 0.0
        self._known = self._passed = self._work = self._part = 0.0
        self._share_from = (0.0, 0.0)

    def expect(self, work: float, pause_s: float = 0.0) -> None:
        """Expect more work than was known, and a pause; the first call begins the work."""
        if self._began is None:
            self._began = self._clock()
        self._share_from = (self.percent or 0.0, self._done)
        self._known += work
        self._pause_s += pause_s

    def enter(self, stage: str, work: float = 0.0) -> None:
        """End the stage before, and begin one that is so much of the expected work."""
        self._passed += self._work
        self.stage, self._work, self._part = stage, work, 0.0

    def advance(self, part: float) -> None:
        """Report so much of this stage as done, from 0 to 1; less than before is passed over."""
        self._part = max(self._part, min(part, 1.0))

    def resume(self) -> None:
        """End the pause; it was no work, and says nothing of the speed."""
        if self._began is not None:
            self._began += self._pause_s
        self._pause_s = 0.0

    @property
    def percent(self) -> float | None:
        """Of all that is known to be needed; None before it is its turn."""
        if not self._known:
            return None
        share, done = self._share_from
        left = max(self._known, self._done) - done  # more may be done than was expected
        return share + (100.0 - share) * (self._done - done) / left if left else share

    @property
    def eta_s(self) -> float | None:
        """What is left at the speed so far, and the pause that is still to come; None while that says nothing."""
        if self._began is None or not self._done or (took := self._clock() - self._began) < _SLOWLY_S:
            return None
        return took * max(0.0, self._known - self._done) / self._done + self._pause_s

    @property
    def _done(self) -> float:
        return self._passed + self._work * self._part


Compare = Callable[[bool, Progress], Awaitable[Comparison]]
"""Compares now, with brokers or not, and tells how far it is. :raises StoreUnavailable: ZooKeeper does not answer."""
