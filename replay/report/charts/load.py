"""The number of partitions without a leader at each moment, as columns of a chart."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from replay.report.charts.axis import Axis
from replay.report.metadata import Row
from replay.report.values import optional

COLUMNS: Final = 200


class LoadColumn(NamedTuple):
    """A bar of the chart, all in percent; neighbours of the same height are one bar."""

    x: float
    width: float
    height: float
    most: int


class LoadChart(NamedTuple):
    """The bars and the height of the highest in partitions."""

    columns: list[LoadColumn]
    most: int


def load(windows: Iterable[Row], axis: Axis, columns: int = COLUMNS) -> LoadChart:
    """Return the chart. Each bar shows the most partitions that were without a leader at once within its time."""
    heights = [0] * columns
    width_ms = (axis.end_ms - axis.start_ms) / columns
    for start, end, value in _steps(windows, axis):
        first = min(columns - 1, int((start - axis.start_ms) / width_ms))
        last = min(columns - 1, int((end - axis.start_ms) / width_ms))
        for index in range(first, last + 1):
            heights[index] = max(heights[index], value)
    most = max(heights)
    return LoadChart(list(_bars(heights, most)), most)


def _steps(windows: Iterable[Row], axis: Axis) -> Iterator[tuple[int, int, int]]:
    """Return (from, to, number) for each stretch in which partitions had no leader."""
    changes: dict[int, int] = {}
    for window in windows:
        start, end = optional(window, "start_ms"), optional(window, "end_ms")
        start, end = axis.start_ms if start is None else start, axis.end_ms if end is None else end
        if start <= axis.end_ms and end >= axis.start_ms:
            start = max(start, axis.start_ms)
            changes[start] = changes.get(start, 0) + 1
            # A window that ends in the millisecond in which it began is still seen.
            changes[max(end, start + 1)] = changes.get(max(end, start + 1), 0) - 1
    value = 0
    for moment, following in pairwise([*sorted(changes), axis.end_ms]):
        value += changes[moment]
        if value:
            yield moment, min(following, axis.end_ms) - 1, value


def _bars(heights: list[int], most: int) -> Iterator[LoadColumn]:
    start = 0
    for index in range(1, len(heights) + 1):
        if index == len(heights) or heights[index] != heights[start]:
            if heights[start]:
                unit = 100 / len(heights)
                x, width = round(start * unit, 3), round((index - start) * unit, 3)
                yield LoadColumn(x, width, round(heights[start] * 100 / most, 2), heights[start])
            start = index
