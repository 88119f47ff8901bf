"""Sends fuzzed frames to the listener and prints the results.

``python -m tests.fuzz --frames 200000 --seed 7`` plays batches until the server took so many frames; ``--batch 12``
plays one of them again. The exit code is 1 when the server did something forbidden.
"""

import argparse
import asyncio
import secrets
import sys
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from tests.fuzz.frames import everything
from tests.fuzz.judge import Wrong
from tests.fuzz.leaks import Holdings, grown, limit_addresses, rss_bytes
from tests.fuzz.run import Figures, FuzzRun
from tests.fuzz.target import target
from tests.fuzz.watchdog import Watchdog

REPORT_EVERY_S: Final = 15.0
WARM_FRAMES: Final = 5_000
"""The resources after so many frames are compared with the resources at the end."""
ALL_FRAMES: Final = 100_000
"""So many frames contain every API in every version."""
_MIB: Final = 2**20


async def play(seed: int, frames: int, batch: int | None) -> Figures:
    """Play batches, or one. :raises Wrong: a defect, a leak, or an API without a request."""
    async with target() as under_test:
        run, reported_at, warm = FuzzRun(under_test, seed), time.monotonic(), None
        limit_addresses()
        with Watchdog() as watchdog:
            for number in count() if batch is None else [batch]:
                watchdog.doing = f"python -m tests.fuzz --seed {seed} --batch {number}"
                await run.batch(number)
                figures = run.figures
                if warm is None and figures.frames >= WARM_FRAMES:
                    warm = await under_test.settled()
                if time.monotonic() - reported_at > REPORT_EVERY_S:
                    reported_at = time.monotonic()
                    print(f"{figures.frames:,} frames, {rss_bytes() / _MIB:.0f} MiB", file=sys.stderr, flush=True)
                if figures.frames >= frames:
                    break
        report(run, warm)
        print(f"  at most {watchdog.longest_s * 1000:.0f} ms of processor time in one turn of the loop")
        await check(run, warm)
        return run.figures


async def check(run: FuzzRun, warm: Holdings | None) -> None:
    """Run the checks of the end. :raises Wrong: a leak, or an API without a request."""
    if warm is not None and (found := grown(warm, await run.target.settled())):
        raise Wrong(f"after {WARM_FRAMES:,} and {run.figures.frames:,} frames: {', '.join(found)}")
    never = set(everything()) - run.figures.sound.keys()
    if run.figures.frames >= ALL_FRAMES and never:
        raise Wrong(f"never asked for and answered: {sorted(never)}")


def report(run: FuzzRun, warm: Holdings | None) -> None:
    """Print the figures of the run."""
    figures = run.figures
    print(f"{figures.frames:,} frames on {figures.connections:,} connections of seed {run.seed}")
    print(f"  answered {figures.answered:,}, hung up on {figures.hung_up:,}")
    print(f"  the server's reasons: {_listed(run.target.server.stats().hang_ups)}")
    print(f"  what was hung up on: {_listed(figures.refused)}")
    print(f"  what was sent: {_listed(figures.harms)}")
    print(f"  slowest answer {figures.slowest_s * 1000:.0f} ms ({figures.slowest})")
    answered = figures.sound.keys() & set(everything())
    print(f"  {len(answered)} of {len(everything())} versions of APIs were asked for and answered")
    if warm is not None:
        then = warm.resident_bytes / _MIB
        print(f"  memory after {WARM_FRAMES:,} frames {then:.0f} MiB, now {rss_bytes() / _MIB:.0f} MiB")
    print(f"  at most {figures.peak / _MIB:.0f} MiB more within a batch")
    print(f"  largest read {run.target.acceptor.largest_read:,} bytes")


def _listed(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items(), key=lambda item: -item[1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=20_000, help="stop after so many")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="what the frames are made from")
    parser.add_argument("--batch", type=int, help="play only this batch of the seed, on a fresh server")
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}", flush=True)
    began = time.monotonic()
    try:
        figures = asyncio.run(play(given.seed, given.frames, given.batch))
    except Wrong as wrong:
        print(f"FAILED: {wrong}")
        return 1
    took = time.monotonic() - began
    print(f"  took {took:.0f} s, {figures.frames / took:.0f} frames/s, {time.process_time():.0f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
