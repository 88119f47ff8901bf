"""The processor time of a broker failure with the audit log at several levels.

Runs are interleaved, and medians taken of neighbours: a disturbance of the machine affects neighbours alike.
"""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.analyse import analyse
from bench.run import Plan, perform

LEVELS: Final = ("off", "summary", "normal", "full")
_NO_DIGEST: Final = {"CONTROLLERD__AUDIT__DIGEST_INTERVAL_S": "86400"}
"""A digest would be due at any time, perhaps during the broker failure; ``steps.py`` measures it by itself."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One run: seconds of processor time of the daemon for a broker failure, threads included."""

    level: str
    cpu_s: float
    leaders_s: float
    """From the end of the session until the last new leader received LeaderAndIsr."""
    load_cpu_s: float
    """Seconds of processor time of the start and the load before the failure."""


async def measure(partitions: int, pairs: int, levels: Sequence[str], cache: Path) -> list[Cost]:
    """Measure every level ``pairs`` times, in an order that rotates. :raises BenchError: a run was not valid."""
    costs: list[Cost] = []
    for number in range(pairs):
        turn = number % len(levels)
        for level in (*levels[turn:], *levels[:turn]):
            costs.append(await _run(partitions, level, cache))
            line = f"[{len(costs)}/{pairs * len(levels)}] {level}: {costs[-1].cpu_s:.2f} s of processor time"
            print(line, file=sys.stderr, flush=True)
    return costs


async def _run(partitions: int, level: str, cache: Path) -> Cost:
    settings = {"CONTROLLERD__AUDIT__LEVEL": level, **_NO_DIGEST}
    plan = Plan(partitions, ("W3", "W1"), new_topics=0, settings=settings)
    watched = await perform(plan, cache)
    death = next(result for result in analyse(watched) if result.workload == "W1")
    load, failure = watched.windows
    return Cost(level, failure.after.cpu_s - failure.before.cpu_s, death.headline, load.after.cpu_s - load.before.cpu_s)


def ratio(costs: Sequence[Cost], level: str, base: str) -> float:
    """The median over pairs of neighbours of how much more one level takes than the other; 1.0 if they are equal."""
    ours = [cost.cpu_s for cost in costs if cost.level == level]
    theirs = [cost.cpu_s for cost in costs if cost.level == base]
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
