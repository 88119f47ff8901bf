"""The lanes of the timeline: terms as bars, everything else that is rare as marks."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from controllerd.record.moments import moment
from replay.report.charts.axis import Axis
from replay.report.metadata import Row, Tables
from replay.report.values import number, of, optional, text

SLOTS: Final = 120
MOST_TERMS: Final = 400
_ROOM_FOR_NAME: Final = 20
_ROOM_FOR_EPOCH: Final = 5
"""Percent of the width that a label needs, on a narrow screen as well."""
_NAMED: Final = 3
"""Number of items that the tooltip of a mark names."""
LANES: Final = (
    ("Brokers", ("brokers",), "square"),
    ("Sessions", ("session",), "ring"),
    ("Alarms", ("alarm",), "triangle"),
    ("Log and znodes", ("gap", "quarantine", "rejected"), "cross"),
)
"""(title, kinds of the timeline, shape)."""
OWN_LANE: Final = frozenset({"term", "violation"})
"""Kinds that are drawn from their own tables."""


class Bar(NamedTuple):
    """A term; ``ready``: percent of it that passed before it was ready; ``label``: empty where it has no room."""

    x: float
    width: float
    ready: float
    label: str
    title: str
    odd: bool


class Mark(NamedTuple):
    """One or several things at about the same moment."""

    x: float
    times: int
    title: str


class Lane(NamedTuple):
    """A row of marks."""

    label: str
    shape: str
    marks: list[Mark]
    total: int


def term_bars(terms: Sequence[Row], axis: Axis) -> list[Bar]:
    """Terms in order, the latest ``MOST_TERMS``; a term without a recorded end lasts until the next one."""
    ordered = sorted(terms, key=lambda row: (number(row, "epoch"), number(row, "begin_ms")))[-MOST_TERMS:]
    begins = [*(number(row, "begin_ms") for row in ordered), axis.end_ms]
    return [_term(row, axis, begins[n + 1], odd=n % 2 == 1) for n, row in enumerate(ordered)]


def _term(row: Row, axis: Axis, next_ms: int, *, odd: bool) -> Bar:
    begin, end = number(row, "begin_ms"), optional(row, "end_ms")
    ready = optional(row, "ready_ms")
    x = axis.x(begin)
    width = round(max(0.3, axis.x(next_ms if end is None else end) - x), 3)
    until_ready = 0.0 if ready is None else min(100.0, (axis.x(ready) - x) * 100 / width)
    name = f"epoch {number(row, 'epoch')} · node {number(row, 'node')}"
    label = name if width > _ROOM_FOR_NAME else f"{number(row, 'epoch')}" if width > _ROOM_FOR_EPOCH else ""
    how = f"{text(row, 'how_begun')} {moment(begin)}, {text(row, 'how_ended') or 'end not seen'} {moment(end)}"
    return Bar(x, width, round(until_ready, 2), label, f"{name}: {how}. {text(row, 'reason')}".strip(), odd)


def mark_lanes(tables: Tables, axis: Axis) -> list[Lane]:
    """Return the lanes of one cluster: one for each group of kinds with entries, and one for violations."""
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in of(tables, "timeline"):
        by_kind[text(row, "kind")].append(row)
    known = {kind for _, kinds, _ in LANES for kind in kinds} | OWN_LANE
    others = ("Other", tuple(sorted(by_kind.keys() - known)), "square")
    violations = of(tables, "violations")
    found = [_lane(label, shape, [row for k in kinds for row in by_kind[k]], axis) for label, kinds, shape in LANES]
    found.append(_lane(others[0], others[2], [row for kind in others[1] for row in by_kind[kind]], axis))
    found.append(_lane("Invariants", "diamond", [{**row, "text": _violated(row)} for row in violations], axis))
    return [lane for lane in found if lane.marks]


def _violated(row: Row) -> str:
    return f"{text(row, 'id')} {text(row, 'title')}: {text(row, 'evidence')}"


def _lane(label: str, shape: str, rows: Sequence[Row], axis: Axis) -> Lane:
    return Lane(label, shape, list(_marks(rows, axis)), len(rows))


def _marks(rows: Iterable[Row], axis: Axis) -> Iterator[Mark]:
    """One mark per slot of the axis."""
    slots: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        ms = optional(row, "ts_ms")
        if ms is not None and axis.start_ms <= ms <= axis.end_ms:
            slots[int(axis.x(ms) * SLOTS / 100)].append(row)
    for _, together in sorted(slots.items()):
        together.sort(key=lambda row: number(row, "ts_ms"))
        named = [f"{moment(optional(row, 'ts_ms'))} {text(row, 'text')}" for row in together[:_NAMED]]
        more = len(together) - len(named)
        title = "\n".join([*named, f"and {more:,} more"] if more else named)
        yield Mark(axis.x(number(together[0], "ts_ms")), len(together), title)
