"""Medians of interleaved runs: what disturbs the machine for a while disturbs neighbours alike."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Protocol


class Measured(Protocol):
    """One run at one level."""

    @property
    def level(self) -> str:
        """What is compared."""
        ...

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time."""
        ...


def median(values: Iterable[float]) -> float:
    """The median."""
    return statistics.median(list(values))


def of(costs: Sequence[Measured], level: str, base: str) -> float:
    """The median over pairs of neighbours of how much more one level takes than the other; 1.0: the same."""
    ours = [cost.cpu_s for cost in costs if cost.level == level]
    theirs = [cost.cpu_s for cost in costs if cost.level == base]
    return median(one / other for one, other in zip(ours, theirs, strict=True))
