"""A bounded sample that prefers recent values, and its quantiles, as in Kafka's own histograms.

The method is the forward-decaying priority sampling (Cormode and others, 2009) of Yammer Metrics, with the same
parameters: 1,028 values, among which those of the last five minutes have most weight.
"""

import math
from collections.abc import Callable, Iterable
from heapq import heappushpop
from random import random
from typing import Final

SIZE: Final = 1_028
ALPHA: Final = 0.015
"""The exponential growth of the weight of values per second."""
RESCALE_S: Final = 3_600.0
"""After this time all weights are scaled down, before they overflow."""


class DecayingReservoir:
    """A sample of at most ``size`` of all values."""

    def __init__(self, clock: Callable[[], float], *, size: int = SIZE, draw: Callable[[], float] = random) -> None:
        """``clock`` returns monotonic seconds; ``draw`` a random number from 0 to below 1."""
        self._clock = clock
        self._size = size
        self._draw = draw
        self._kept: list[tuple[float, float]] = []
        """A heap of priorities with their values."""
        self._since = clock()

    def __len__(self) -> int:
        return len(self._kept)

    def update(self, value: float) -> None:
        """Add a value; if the sample is full, the value with the lowest priority is removed."""
        age = self._clock() - self._since
        if age >= RESCALE_S:
            self._rescale(age)
            age = 0.0
        item = (math.exp(ALPHA * age) / (1.0 - self._draw()), value)
        if len(self._kept) < self._size:
            self._kept.append(item)
            if len(self._kept) == self._size:
                self._kept.sort()  # a sorted list is a heap; nothing is removed before
        else:
            heappushpop(self._kept, item)

    def quantiles(self, wanted: Iterable[float]) -> list[float]:
        """The values below which these shares of the sample are, interpolated; 0 if it is empty."""
        values = sorted(value for _, value in self._kept)
        return [_quantile(values, share) for share in wanted]

    def _rescale(self, age: float) -> None:
        factor = math.exp(-ALPHA * age)
        self._kept = [(priority * factor, value) for priority, value in self._kept]
        self._since += age


def _quantile(values: list[float], share: float) -> float:
    """Return a quantile as Yammer's ``Snapshot.getValue`` does."""
    if not values:
        return 0.0
    place = share * (len(values) + 1)
    if place < 1:
        return values[0]
    if place >= len(values):
        return values[-1]
    lower, upper = values[int(place) - 1], values[int(place)]
    return lower + (place - int(place)) * (upper - lower)
