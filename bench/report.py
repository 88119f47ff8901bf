"""The figures as tables, compared with the built-in controller and the targets, and as a JSON file."""

import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from rich.table import Table

from bench import layout
from bench.analyse import Figures, Result
from bench.baseline import GROWING_ROWS, MAY_NOT_EXCEED, ROWS, TARGET_SIZE, TARGETS, Row, allowed, built_in
from bench.run import SLOW_S

THREATS: Final = (
    "One machine and few processors for the controller, ZooKeeper, the stubs and the harness; one ZooKeeper server, "
    "started anew for each run; data in the page cache; uniform placement; stubs answer at once, which brokers do not; "
    "the time until a dead broker or controller is noticed (the session timeout) is not part of any figure. "
    "Take every time for right within 30 %; counts are exact."
)
_CLUSTER: Final = {
    "brokers": layout.BROKERS, "rf": layout.REPLICATION, "partitions_per_topic": layout.TOPIC_PARTITIONS
}  # fmt: skip
_RATIOS: Final = ("zk_transactions", "zk_operations", "zk_reads", "requests", "request_bytes")
_SEEN_BY_OTHERS: Final = (("W3", "ready_s"), ("W3", "last_request_s"), ("W1", "leaders_s"), ("W1", "last_request_s"))
_TIMES: Final = {"W3": "ready_s", "W1": "last_request_s", "W2": "last_request_s", "W5": "rpc_s"}


_COUNTED: Final = MAY_NOT_EXCEED | {"zk_reads", "zk_transactions"}
"""Figures that are the same on every machine."""


class Spread(NamedTuple):
    """The repetitions of one metric."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


Key = tuple[int, str, str]
"""The number of partitions, the workload and the metric."""


def spreads(results: Iterable[Result], slow: str = "none") -> dict[Key, Spread]:
    """Return the median and the range of every metric of the runs with stubs of this kind."""
    points: dict[Key, list[float]] = defaultdict(list)
    for one in results:
        if one.slow == slow:
            for metric, value in one.figures.items():
                points[one.partitions, one.workload, metric].append(value)
    return {key: Spread.of(values) for key, values in points.items()}


class Line(NamedTuple):
    """A row of the table of one size. ``verdict`` is PASS, MISS, or empty without a limit."""

    row: Row
    ours: Spread
    peer: float | None
    target: float | None
    verdict: str


def limit_of(row: Row, partitions: int, peer: float | None) -> float | None:
    """Return the limit: the target, which exists for 100,000 partitions, or else the built-in controller's figure."""
    target = TARGETS.get((row.workload, row.metric)) if partitions == TARGET_SIZE else None
    return peer if target is None and row.metric in MAY_NOT_EXCEED else target


def lines(results: Sequence[Result], partitions: int, new_topics: int) -> list[Line]:
    """Return the comparison at one size."""
    known = spreads(results)
    found = []
    for row in ROWS:
        ours = known.get((partitions, row.workload, row.metric))
        if ours is not None:
            peer = built_in(row.workload, row.metric, partitions, new_topics)
            limit = limit_of(row, partitions, peer)
            verdict = "" if limit is None else "PASS" if round(ours.median, row.digits) <= limit else "MISS"
            found.append(Line(row, ours, peer, limit, verdict))
    return found


def costs_too_much(verdicts: Iterable[Line]) -> bool:
    """Whether a count exceeds its limit. Times depend on the machine, so they only appear in the tables."""
    return any(line.verdict == "MISS" and line.row.metric in _COUNTED for line in verdicts)


def _text(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def table_of(compared: Sequence[Line], partitions: int) -> Table:
    """Return a table of one line per metric: ours (median and range), the built-in controller's, limit, verdict."""
    table = Table(
        title=f"{partitions:,} partitions, RF {layout.REPLICATION}, {layout.BROKERS} stubs", title_justify="left"
    )
    for column, justify in (("", "left"), ("metric", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # one of rich's words
    for column in ("controllerd", "from - to", "built-in", "at most"):
        table.add_column(column, justify="right")
    table.add_column("")
    for row, ours, peer, target, verdict in compared:
        spread = f"{_text(ours.lowest, row.digits)} - {_text(ours.highest, row.digits)}"
        cells = (_text(ours.median, row.digits), spread, _text(peer, row.digits), _text(target, row.digits))
        colour = {"PASS": "[green]PASS", "MISS": "[red]MISS"}.get(verdict, "")
        table.add_row(row.workload, row.label, *cells, colour)
    return table


# -- linearity ---------------------------------------------------------------------------------------------------------


def exponent(points: Mapping[int, float]) -> float:
    """Return the power of the size with which a value grows, fitted over all sizes: 1 is linear, 0 is constant."""
    pairs = [(math.log(size), math.log(value)) for size, value in points.items() if value > 0]
    if len(pairs) < 2:
        return 0.0
    slope, _ = statistics.linear_regression([x for x, _ in pairs], [y for _, y in pairs])
    return slope


def linearity_of(results: Sequence[Result]) -> list[tuple[str, str, dict[int, float], float]]:
    """Return workload, metric, median by size, and the power with which the median grows."""
    points: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (size, workload, metric), spread in spreads(results).items():
        points[workload, metric][size] = spread.median
    wanted = [(w, m) for w, time in _TIMES.items() for m in (time, "cpu_s", *_RATIOS) if len(points[w, m]) > 1]
    return [(w, m, points[w, m], exponent(points[w, m])) for w, m in wanted]


def linearity_table(results: Sequence[Result]) -> Table:
    """Return a table of the values by size, with the power of their growth."""
    rows = linearity_of(results)
    sizes = sorted({size for _, _, points, _ in rows for size in points})
    table = Table(title="growth with the size (power 1.0: linear; 0: independent)", title_justify="left")
    for column in ("", "metric", *(f"{size:,}" for size in sizes), "power"):
        table.add_column(column, justify="left" if column in {"", "metric"} else "right")
    for workload, metric, points, power in rows:
        digits = 2 if metric.endswith("_s") else 0
        table.add_row(workload, metric, *(_text(points.get(size), digits) for size in sizes), f"{power:.2f}")
    return table


# -- deletions and reassignments (W7, W8) ------------------------------------------------------------------------------


class Growth(NamedTuple):
    """A metric of a workload at each size. ``allowed`` is the limit at the largest size; None: there is no limit."""

    row: Row
    points: Mapping[int, float]
    allowed: float | None

    @property
    def ratio(self) -> float:
        """The cost of the largest size divided by that of the smallest."""
        return self.points[max(self.points)] / (self.points[min(self.points)] or 1.0)

    @property
    def verdict(self) -> str:
        """PASS, MISS, or empty without a limit."""
        if self.allowed is None:
            return ""
        return "PASS" if self.points[max(self.points)] <= self.allowed else "MISS"


def growth_of(results: Sequence[Result]) -> list[Growth]:
    """Return the medians by size of the metrics that grow with the number of deleted or moved partitions."""
    points: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (size, workload, metric), spread in spreads(results).items():
        points[workload, metric][size] = spread.median
    rows = [row for row in GROWING_ROWS if points[row.workload, row.metric]]
    return [Growth(row, found := points[row.workload, row.metric], allowed(row, max(found))) for row in rows]


def growth_table(growth: Sequence[Growth]) -> Table:
    """Return a table of the values by size and their ratio: twice the partitions may cost twice as much."""
    table = Table(title="deletions and reassignments: smaller size, larger size, and their ratio", title_justify="left")
    for column, justify in (("", "left"), ("metric", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # one of rich's words
    for column in ("partitions", "costs", "ratio", "at most"):
        table.add_column(column, justify="right")
    table.add_column("")
    for line in growth:
        digits, sizes = line.row.digits, sorted(line.points)
        costs = " -> ".join(_text(line.points[size], digits) for size in sizes)
        cells = (" -> ".join(f"{size:,}" for size in sizes), costs, f"{line.ratio:.2f}", _text(line.allowed, digits))
        colour = {"PASS": "[green]PASS", "MISS": "[red]MISS"}.get(line.verdict, "")
        table.add_row(line.row.workload, line.row.label, *cells, colour)
    return table


# -- a slow broker (W12) -----------------------------------------------------------------------------------------------


def slow_table(results: Sequence[Result], partitions: int) -> Table:
    """Return a table of the waits of the other stubs while one is late or silent; the waits should not depend on it."""
    table = Table(title=f"W12 at {partitions:,}: the other stubs while one is late or silent", title_justify="left")
    for column in ("", "metric", "all answer", f"one {SLOW_S:g} s late", "one silent"):
        table.add_column(column, justify="left" if column in {"", "metric"} else "right")
    kinds = [spreads(results, slow) for slow in ("none", "slow", "silent")]
    for workload, metric in (
        ("W3", "ready_s"),
        ("W3", "last_request_s"),
        ("W1", "leaders_s"),
        ("W1", "last_request_s"),
    ):
        found = [kind.get((partitions, workload, metric)) for kind in kinds]
        table.add_row(workload, metric, *(_text(None if s is None else s.median, 2) for s in found))
    return table


# -- the result file ---------------------------------------------------------------------------------------------------


def machine() -> dict[str, object]:
    """Describe the machine and the measured versions."""
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "controllerd": version("controllerd"),
        "kazoo": version("kazoo"),
        "pyspark (ZooKeeper's jars)": version("pyspark"),
        "git": _git("rev-parse", "HEAD"),
        "changed files": len(_git("status", "--porcelain").splitlines()),
    }


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    asked = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def as_json(results: Sequence[Result], verdicts: Mapping[int, Sequence[Line]], load: Sequence[float]) -> str:
    """Return machine, versions, verdicts and every raw point as JSON."""
    content = {
        "machine": machine(),
        "arguments": sys.argv[1:],
        "load average before": list(load),
        "threats to validity": THREATS,
        "cluster": _CLUSTER,
        "compared": [
            {"partitions": size, "workload": row.workload, "metric": row.metric, **ours._asdict(), "built_in": peer,
             "at_most": target, "verdict": verdict}
            for size, compared in verdicts.items() for row, ours, peer, target, verdict in compared
        ],
        "points": [
            {"partitions": one.partitions, "workload": one.workload, "slow": one.slow, **_rounded(one.figures)}
            for one in results
        ],
    }  # fmt: skip
    return json.dumps(content, indent=2) + "\n"


def _rounded(figures: Figures) -> Figures:
    return {name: round(value, 4) for name, value in figures.items()}
