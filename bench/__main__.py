"""``python -m bench``: measure controllerd, and compare it with the built-in controller and the targets."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import layout, report
from bench.analyse import Result, analyse
from bench.prepare import BenchError, default_cache
from bench.profile import read_profiles
from bench.run import GROWING, Plan, perform
from controllerd.dev.processes import DevError
from controllerd.logs import configure_logging

_WORKLOADS: Final = ("W1", "W2", "W3", "W5", "W6", "W7", "W8", "W8S", "W12")
_QUICK: Final = (2_000, 4_000)
_NEW_TOPICS: Final = 100
_USUAL: Final = ",".join(workload for workload in _WORKLOADS if workload != "W12")
_AFFECTED: Final = {"W7": (5_000, 10_000), "W8": (500, 1_000), "W8S": (500, 1_000)}
"""The numbers of partitions that are deleted or moved. Two each, which show how the cost grows."""


def stories(workloads: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
    """Return the runs for these workloads, each with the kind of its last stub.

    A run begins with a fresh process, and so with W3.
    """
    runs = []
    broker = tuple(workload for workload in ("W1", "W2") if workload in workloads)
    if broker:
        runs.append((("W3", "W1", *(("W2",) if "W2" in workloads else ())), "none"))
    runs += [(("W3", workload), "none") for workload in ("W5", "W6") if workload in workloads]
    if "W3" in workloads and not runs:
        runs.append((("W3",), "none"))
    if "W12" in workloads:
        runs += [(("W3", "W1"), slow) for slow in ("none", "slow", "silent") if slow != "none" or not broker]
    return runs


def plans(arguments: argparse.Namespace) -> Iterator[Plan]:
    """Yield the plan of every run. Repetitions are outermost, so that a disturbance affects all workloads alike."""
    for _ in range(arguments.repeat):
        for size in arguments.sizes:
            for workloads, slow in stories(arguments.workloads):
                new_topics = arguments.new_topics or _NEW_TOPICS
                yield Plan(size, workloads, new_topics, slow, arguments.full_answers, arguments.warm_zookeeper)
        yield from growing_plans(arguments)


def growing_plans(arguments: argparse.Namespace) -> Iterator[Plan]:
    """Yield the plans of deletions and reassignments. The cluster is as large as the largest of them, or as asked."""
    for workload in (one for one in GROWING if one in arguments.workloads):
        for affected in _AFFECTED[workload]:
            size = max(_AFFECTED[workload][-1], arguments.partitions or 0)
            plan = Plan(size, ("W3", workload), _NEW_TOPICS, warm=arguments.warm_zookeeper, affected=affected)
            yield plan


async def measure(plan: Plan, arguments: argparse.Namespace, console: Console) -> list[Result]:
    """Perform a run and return its figures; with ``--profile`` print its time by function."""
    with tempfile.TemporaryDirectory(prefix="controllerd-bench-") as folder:
        profile = Path(folder) / "profile.json" if arguments.profile else None
        watched = await perform(replace(plan, profile=profile), arguments.cache)
        results = analyse(watched)
        if plan.affected:  # the load of such a cluster is measured elsewhere
            results = [one for one in results if one.workload in GROWING]
        if profile is not None:
            spans = [(one.workload, one.start_ns, one.last_ns) for one in results]
            for found in read_profiles(profile, spans):
                console.print("\n".join(found.lines()), markup=False, highlight=False)
    return results


async def measure_all(arguments: argparse.Namespace, console: Console) -> tuple[list[Result], int]:
    """Perform every run; return the figures of the valid ones, and the number of the others."""
    results: list[Result] = []
    failed = 0
    every = list(plans(arguments))
    for number, plan in enumerate(every, 1):
        try:
            found = await measure(plan, arguments, console)
        except (BenchError, DevError) as error:
            failed += 1
            print(f"[{number}/{len(every)}] {plan.partitions:,} partitions: not valid: {error}", file=sys.stderr)
            continue
        results += found
        kind = "" if plan.slow == "none" else f", last stub {plan.slow}"
        times = ", ".join(f"{one.workload} {one.headline:.2f} s" for one in found)
        others = max(one.figures["others"] for one in found)
        done = f"[{number}/{len(every)}] {plan.affected or plan.partitions:,} partitions{kind}: {times}"
        print(f"{done} (others took {others:.0%} of the processors)", file=sys.stderr, flush=True)
    return results, failed


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--partitions", type=int, help="one size; without any, two small ones")
    parser.add_argument("--sizes", type=_numbers, metavar="P,P,...", help="several sizes, to see how the cost grows")
    parser.add_argument("--workloads", type=_workloads, default=_USUAL, help=f"of {', '.join(_WORKLOADS)}")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each kind (default 1)")
    parser.add_argument("--new-topics", type=int, help=f"topics that W6 creates (default {_NEW_TOPICS}; quick: a few)")
    parser.add_argument(
        "--full-answers", action="store_true", help="let stubs name every partition in answers, as brokers do"
    )
    parser.add_argument("--warm-zookeeper", action="store_true", help="warm up ZooKeeper before each run")
    parser.add_argument("--profile", action="store_true", help="sample the daemon and print its time by function")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the prepared ZooKeeper data")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result to this file")
    arguments = parser.parse_args(given)
    if arguments.partitions is None and arguments.sizes is None:
        arguments.sizes, arguments.new_topics = _QUICK, arguments.new_topics or _QUICK[0] // layout.TOPIC_PARTITIONS
    arguments.sizes = arguments.sizes or [arguments.partitions]
    if any(size < layout.TOPIC_PARTITIONS or size % layout.TOPIC_PARTITIONS for size in arguments.sizes):
        parser.error(f"sizes must be multiples of {layout.TOPIC_PARTITIONS}")
    return arguments


def _numbers(text: str) -> list[int]:
    return sorted(int(part) for part in text.split(","))


def _workloads(text: str) -> list[str]:
    wanted = text.upper().split(",")
    unknown = set(wanted) - set(_WORKLOADS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no such workload: {', '.join(sorted(unknown))}")
    return wanted


def main() -> int:
    """Measure, print, and write the result file. Return 1 if a run is not valid, or exceeds a limit of its cost."""
    arguments = arguments_of()
    configure_logging("warning")
    console = Console(width=None if Console().is_terminal else 150)
    load = os.getloadavg()
    print(
        f"load average before: {load[0]:.2f} {load[1]:.2f} {load[2]:.2f}; {os.cpu_count()} processors", file=sys.stderr
    )
    results, failed = asyncio.run(measure_all(arguments, console))
    verdicts = {}
    for size in arguments.sizes:
        verdicts[size] = report.lines(results, size, arguments.new_topics or _NEW_TOPICS)
        console.print(report.table_of(verdicts[size], size))
    if len(arguments.sizes) > 1:
        console.print(report.linearity_table(results))
    growth = report.growth_of(results)
    if growth:
        console.print(report.growth_table(growth))
    if "W12" in arguments.workloads:
        for size in arguments.sizes:
            console.print(report.slow_table(results, size))
    console.print(report.THREATS, style="dim")
    if arguments.json is not None:
        arguments.json.write_text(report.as_json(results, verdicts, load), encoding="utf-8")
    costly = any(report.costs_too_much(of_size) for of_size in verdicts.values())
    return 1 if failed or costly or any(line.verdict == "MISS" for line in growth) else 0


if __name__ == "__main__":
    sys.exit(main())
