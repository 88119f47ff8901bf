"""``python -m bench.audit``: what the audit log costs the daemon, in processor time and in waits of the event loop."""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.audit.cost import LEVELS, Cost, measure, ratio
from bench.audit.steps import StepFigures, measure_checkpoints
from bench.layout import TOPIC_PARTITIONS
from bench.prepare import BenchError, default_cache
from controllerd.dev.processes import DevError
from controllerd.logs import configure_logging

ALLOWED: Final = 1.10
"""The processor time of a broker failure at level normal, relative to no log at all."""
LONGEST_MS: Final = 20.0
"""The time that a step of a snapshot within a term may take, which is the time that it delays an event."""


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=11, help="runs of each level, interleaved (default 11)")
    parser.add_argument("--levels", default=",".join(LEVELS), help=f"of {','.join(LEVELS)}; the first is compared with")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where prepared ZooKeeper data is kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes")
    arguments = parser.parse_args(given)
    arguments.levels = arguments.levels.split(",")
    if unknown := set(arguments.levels) - set(LEVELS):
        parser.error(f"no such level: {', '.join(sorted(unknown))}; there are {', '.join(LEVELS)}")
    if arguments.partitions < TOPIC_PARTITIONS or arguments.partitions % TOPIC_PARTITIONS:
        parser.error(f"--partitions must be a multiple of {TOPIC_PARTITIONS}")
    return arguments


def table(costs: Sequence[Cost], levels: Sequence[str]) -> list[str]:
    """Return the medians as a Markdown table."""
    lines = ["| level | broker failure, processor s | relative, median of pairs | last new leader informed, s |"]
    lines.append("|---|---|---|---|")
    for level in levels:
        of_level = [cost for cost in costs if cost.level == level]
        if of_level:
            cpu = statistics.median(cost.cpu_s for cost in of_level)
            leaders_s = statistics.median(cost.leaders_s for cost in of_level)
            lines.append(f"| {level} | {cpu:.3f} | {ratio(costs, level, levels[0]):.3f} | {leaders_s:.2f} |")
    return lines


def lines_of(figures: StepFigures) -> list[str]:
    """Return the figures of snapshots and digests as a Markdown table."""
    return [
        "| within a term | takes s | steps | longest step, processor ms | longest an event waited, ms |",
        "|---|---|---|---|---|",
        *(
            f"| {one.what} | {one.took_s:.2f} | {one.steps} | {one.longest_step_ms:.1f} | {one.longest_wait_ms:.1f} |"
            for one in figures
        ),
    ]


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and write the result file. Return 1 if a limit is missed or a run is not valid."""
    arguments = arguments_of(given)
    size, levels = arguments.partitions, arguments.levels
    load = os.getloadavg()
    print(f"load average before: {load[0]:.2f} {load[1]:.2f}; {os.cpu_count()} processors", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="controllerd-bench-") as folder:
        figures = asyncio.run(measure_checkpoints(size, Path(folder)))
    print("\n".join(lines_of(figures)), flush=True)
    try:
        costs = asyncio.run(measure(size, arguments.pairs, levels, arguments.cache))
    except (BenchError, DevError) as error:
        print(f"not valid: {error}", file=sys.stderr)
        return 1
    print("\n".join(table(costs, levels)))
    if arguments.json is not None:
        result = {
            "partitions": size,
            "costs": [asdict(cost) for cost in costs],
            "ratios": {level: ratio(costs, level, levels[0]) for level in levels},
            "at_rest": [asdict(one) for one in figures],
            "load_average": load,
        }
        arguments.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return _verdict(costs, figures, levels)


def _verdict(costs: Sequence[Cost], figures: StepFigures, levels: Sequence[str]) -> int:
    """Print each limit that is missed; return 1 if there is one. Times depend on the machine."""
    problems = [
        f"a step of a {one.what} takes {one.longest_step_ms:.0f} ms, more than {LONGEST_MS:.0f}"
        for one in figures
        if one.longest_step_ms > LONGEST_MS
    ]
    if {"off", "normal"} <= set(levels) and (cost := ratio(costs, "normal", "off")) > ALLOWED:
        problems.append(f"the log costs {cost - 1:.0%} at normal, more than {ALLOWED - 1:.0%}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    configure_logging("warning")
    sys.exit(main())
