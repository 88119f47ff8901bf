"""The heat map: partition-seconds without leader by topic and time."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from controllerd.record.moments import duration, moment
from replay.report.charts.axis import Axis
from replay.report.metadata import Row
from replay.report.values import number, text, total

CLASSES: Final = 5
MOST_TOPICS: Final = 200


class Cell(NamedTuple):
    """A topic's time in one bucket; ``step`` from 1 to ``CLASSES`` gives colour and height."""

    x: float
    width: float
    step: int
    title: str


class Strip(NamedTuple):
    """The row of one topic."""

    topic: str
    total: str
    cells: list[Cell]


class Heat(NamedTuple):
    """All strips, the worst first; ``limits`` are the upper ends of the classes."""

    axis: Axis
    strips: list[Strip]
    limits: list[str]
    left_out: int


def heat(rows: Sequence[Row]) -> Heat | None:
    """Return the chart of one cluster; None if no time was lost."""
    by_topic: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if number(row, "lost_us"):
            by_topic[text(row, "topic")].append(row)
    if not by_topic:
        return None
    shown = [row for group in by_topic.values() for row in group]
    ends = [number(row, "bucket_ms") + number(row, "width_ms") for row in shown]
    axis = Axis.over(min(number(row, "bucket_ms") for row in shown), max(ends))
    limits = _limits(max(number(row, "lost_us") for row in shown))
    worst = sorted(by_topic.items(), key=lambda item: (-total(item[1], "lost_us"), item[0]))
    strips = [_strip(topic, group, axis, limits) for topic, group in worst[:MOST_TOPICS]]
    return Heat(axis, strips, [duration(limit) for limit in limits], max(0, len(worst) - MOST_TOPICS))


def _limits(most_us: int) -> list[int]:
    """The upper ends of the classes, each three times the one before: both short and long losses are seen."""
    return [max(1, most_us // 3**power) for power in reversed(range(CLASSES))]


def _strip(topic: str, rows: Sequence[Row], axis: Axis, limits: Sequence[int]) -> Strip:
    return Strip(topic, duration(total(rows, "lost_us")), [_cell(row, axis, limits) for row in rows])


def _cell(row: Row, axis: Axis, limits: Sequence[int]) -> Cell:
    start, lost = number(row, "bucket_ms"), number(row, "lost_us")
    end = start + number(row, "width_ms")
    x = axis.x(start)
    step = next(index for index, limit in enumerate(limits, 1) if lost <= limit)
    title = f"{text(row, 'topic')}: {duration(lost)} lost, {moment(start)} to {moment(end)}"
    return Cell(x, round(axis.x(end) - x, 3), step, title)
