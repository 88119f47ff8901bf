"""A bounded sample that prefers the recent, and the quantiles in it, as Kafka's own histograms have them.

It is the forward-decaying priority sampling (Cormode and others, 2009) of Yammer Metrics, with its figures: 1,028
values, of which those of the last five minutes count for most.
"""

import math
from collections.abc import Callable, Iterable
from heapq import heappushpop
from random import random
from typing import Final

SIZE: Final = 1_028
ALPHA: Final = 0.015
"""A value of a second later weighs more by this share."""
RESCALE_S: Final = 3_600.0
"""After so long all weights are made small again, before they overflow."""


class DecayingReservoir:
    """A sample of at most ``size`` of the values that came."""

    def __init__(self, clock: Callable[[], float], *, size: int = SIZE, draw: Callable[[], float] = random) -> None:
        """``clock`` gives monotonic seconds; ``draw`` a number from 0 to below 1."""
        self._clock = clock
        self._size = size
        self._draw = draw
        self._kept: list[tuple[float, float]] = []
        """A heap of priorities with their values."""
        self._since = clock()

    def __len__(self) -> int:
        return len(self._kept)

    def update(self, value: float) -> None:
        """Take a value in; another one has to go when the sample is full."""
        age = self._clock() - self._since
        if age >= RESCALE_S:
            self._rescale(age)
            age = 0.0
        item = (math.exp(ALPHA * age) / (1.0 - self._draw()), value)
        if len(self._kept) < self._size:
            self._kept.append(item)
            if len(self._kept) == self._size:
                self._kept.sort()  # sorted is a heap: nothing is taken out before
        else:
            heappushpop(self._kept, item)

    def quantiles(self, wanted: Iterable[float]) -> list[float]:
        """The values below which these shares of the sample are, interpolated; 0 while it is empty."""
        values = sorted(value for _, value in self._kept)
        return [_quantile(values, share) for share in wanted]

    def _rescale(self, age: float) -> None:
        factor = math.exp(-ALPHA * age)
        self._kept = [(priority * factor, value) for priority, value in self._kept]
        self._since += age


def _quantile(values: list[float], share: float) -> float:
    """As Yammer's ``Snapshot.getValue``."""
    if not values:
        return 0.0
    place = share * (len(values) + 1)
    if place < 1:
        return values[0]
    if place >= len(values):
        return values[-1]
    lower, upper = values[int(place) - 1], values[int(place)]
    return lower + (place - int(place)) * (upper - lower)
