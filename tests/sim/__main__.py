"""Plays many seeds, or one with its whole story.

``python -m tests.sim --seeds 2000`` plays 2,000 seeds on all processors and prints the failing ones. ``--seed 7``
prints the plan, the trace and the verdict of one; with ``--shrink`` the plan is cut down first. Both name the commit
that is played, because a count of seeds holds for that commit only.
"""

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tests.sim.plan import plan_of
from tests.sim.shrink import shrink
from tests.sim.story import play

_AT_ONCE = 25
_CRITICAL = 50
_REPORT_EVERY_S = 15.0
_TREE: Final = Path(__file__).parents[2]
_CHANGED: Final = "-dirty"


class PlayedSeeds(NamedTuple):
    """The result of one worker for its seeds."""

    seeds: int
    cpu_s: float
    failed: list[tuple[int, str]]


def silence() -> None:
    """Drop the log of the simulated daemons; the trace has all events of a story."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))


def commit_of(tree: Path) -> str:
    """The short hash of the commit that is checked out in ``tree``, and whether files differ from it.

    Files that git does not know do not count. A copy without a repository of its own has no commit,
    whatever folder it lies in.
    """
    command = ["git", "-C", str(tree), "describe", "--always", "--exclude=*", f"--dirty={_CHANGED}"]
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.resolve().parent)}
    try:
        done = subprocess.run(command, env=alone, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    found = done.stdout.strip()
    if found.endswith(_CHANGED):
        return f"commit {found.removesuffix(_CHANGED)} with changes that are not committed"
    return f"commit {found}, unchanged"


def play_some(seeds: Sequence[int], *, is_late: bool = True, calls_for_topics: bool = True) -> PlayedSeeds:
    """Play these seeds one after another, in this process; ``plan_of`` describes the other arguments."""
    silence()
    began, failed = time.process_time(), []
    for seed in seeds:
        violations = play(plan_of(seed, is_late=is_late, calls_for_topics=calls_for_topics)).violations
        failed += [(seed, f"{found.id} at {found.time:.3f} s: {found.evidence}") for found in violations[:1]]
    gc.collect()
    return PlayedSeeds(len(seeds), time.process_time() - began, failed)


def hashes(seeds: Sequence[int]) -> list[str]:
    """The trace hash of each of these seeds."""
    silence()
    return [play(plan_of(seed)).trace_hash for seed in seeds]


def play_many(first: int, count: int, jobs: int) -> Iterator[PlayedSeeds]:
    """Play so many seeds in so many processes; yield results as they come."""
    parts = [range(at, min(at + _AT_ONCE, first + count)) for at in range(first, first + count, _AT_ONCE)]
    if jobs == 1:
        yield from map(play_some, parts)
        return
    with ProcessPoolExecutor(jobs, initializer=gc.freeze) as pool:
        pending = [pool.submit(play_some, part) for part in parts]
        try:
            for done in as_completed(pending):
                yield done.result()
        finally:
            for future in pending:
                future.cancel()


def many(first: int, count: int, jobs: int, *, stop_at_first: bool) -> int:
    """Play seeds and print the progress; return the exit code."""
    played, cpu_s, failed, reported_at = 0, 0.0, 0, time.monotonic()
    commit = commit_of(_TREE)  # before the first seed: a commit made meanwhile is not the played one
    for part in play_many(first, count, jobs):
        played, cpu_s, failed = played + part.seeds, cpu_s + part.cpu_s, failed + len(part.failed)
        for seed, why in sorted(part.failed):
            print(f"seed {seed} failed: {why}", flush=True)
        if failed and stop_at_first:
            break
        if time.monotonic() - reported_at > _REPORT_EVERY_S:
            reported_at = time.monotonic()
            print(f"{played} of {count} seeds, {failed} failed", file=sys.stderr, flush=True)
    rate = played / cpu_s * 3600 if cpu_s else 0
    print(f"{played} seeds, {failed} failed; {cpu_s:.0f} s of processor time, {rate:,.0f} seeds an hour and core")
    print(f"played on {commit}")
    if failed:
        print("the whole story of one: python -m tests.sim --shrink --seed N")
    return 1 if failed else 0


def one(seed: int, *, cuts: bool) -> int:
    """Play one seed and print everything; return the exit code."""
    silence()
    commit, plan = commit_of(_TREE), plan_of(seed)
    if cuts:
        plan = shrink(plan, lambda text: print(text, file=sys.stderr))
    ending = play(plan)
    print(plan)
    print("\n".join(ending.traced))
    for found in ending.violations:
        print(f"{found.id} at {found.time:.3f} s: {found.evidence}")
    print(f"{len(ending.violations)} violations, trace {ending.trace_hash}, {commit}")
    return 1 if ending.violations else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--stop-at-first", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--seed", type=int, help="play this one and print its story")
    parser.add_argument("--shrink", action="store_true", help="with --seed: cut the plan down first")
    given = parser.parse_args(arguments)
    if given.shrink and given.seed is None:
        parser.error("--shrink needs --seed: which one is to be cut down?")
    if given.seed is not None:
        return one(given.seed, cuts=given.shrink)
    return many(given.first, given.seeds, given.jobs, stop_at_first=given.stop_at_first)


if __name__ == "__main__":
    sys.exit(main())
