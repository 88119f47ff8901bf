"""``python -m bench.http``: how long readers wait at 100,000 partitions, and how long events wait for readers.

The endpoint is the daemon's, over a published snapshot of 100,000 partitions: in topics of 100, then all in one topic.
The readers are in this process, one after the other and then several at once. An answer may take 300 ms, hold the
event loop for 20 ms in one piece, and delay an event by as much. Exits with status 1 if one of these limits is missed.
Other load on the machine makes every time longer; the processor time beside each figure shows it.
"""

import argparse
import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp
from rich.console import Console
from rich.table import Table

from bench import layout

ANSWER_MS: Final = 300.0
HOLD_MS: Final = 20.0
_QUIET_S: Final = 3.0
_TOPIC: Final = layout.name(layout.OLD, 0)
_QUERIES: Final[Mapping[str, Sequence[str]]] = {
    "/v1/partitions": ("limit=2000", "offline=true", "non_preferred=true", "under_replicated=true", "on=3"),
    "/v1/topics": ("limit=2000",),
    "/v1/events": ("limit=2000",),
    "/v1/replicas": ("limit=2000",),
}
"""Queries that are measured besides the plain path."""


class PathTimes(NamedTuple):
    """One path: the milliseconds of its answers, and the measurements of the event loop meanwhile."""

    path: str
    answers: list[float]
    status: int
    loop: Mapping[str, float]

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of processor time for one answer on average, events included."""
        return self.loop["cpu_ms"] / len(self.answers)

    @property
    def has_missed(self) -> bool:
        """Whether a limit is missed in wall-clock time."""
        loop = self.loop
        return max(self.answers) > ANSWER_MS or loop["hold_ms"] > HOLD_MS or loop["wait_max_ms"] > HOLD_MS


class Server:
    """A handle on the process of the endpoint."""

    def __init__(self, process: Process, started: Mapping[str, Any]) -> None:
        self._process = process
        self.base = f"http://127.0.0.1:{started['port']}"
        self.paths: list[str] = started["paths"]

    async def since(self) -> dict[str, float]:
        """Return the measurements of its event loop since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        found: dict[str, float] = json.loads(await self._process.stdout.readline())
        return found


@asynccontextmanager
async def server(partitions: int, size: int) -> AsyncIterator[Server]:
    """Run the endpoint, with topics of this size, until the block ends."""
    command = [sys.executable, "-m", "bench.http_server", str(partitions), str(size)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=2**20)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Server(process, json.loads(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


def addresses(paths: Sequence[str]) -> list[str]:
    """Return every path with its parameters filled in, and with queries."""
    found: list[str] = []
    for path in dict.fromkeys(paths):
        found.append(path.replace("{partition}", "51").replace("{id}", "3").replace("{topic}", _TOPIC))
        found += [f"{path}?{query}" for query in _QUERIES.get(path, ())]
    return [address for address in found if "{" not in address]


async def ask(session: aiohttp.ClientSession, address: str) -> tuple[float, int, bytes]:
    """Send a GET request; return the milliseconds until the last byte, the status and the body."""
    began = time.perf_counter()
    async with session.get(address) as answer:
        body = await answer.read()
    return (time.perf_counter() - began) * 1000, answer.status, body


async def measure(session: aiohttp.ClientSession, server: Server, address: str, times: int) -> PathTimes:
    """Measure one path several times; the first time counts as well."""
    await server.since()
    answers, status = [], 0
    for _ in range(times):
        took, status, _ = await ask(session, address)
        answers.append(took)
    return PathTimes(address, answers, status, await server.since())


async def all_pages(session: aiohttp.ClientSession, server: Server, path: str) -> PathTimes:
    """Measure a whole list, in pages of the largest size."""
    await server.since()
    answers: list[float] = []
    cursor: str | None = ""
    status = 200
    while cursor is not None and status == 200:
        took, status, body = await ask(session, f"{path}?limit=2000" + (f"&cursor={cursor}" if cursor else ""))
        answers.append(took)
        cursor = json.loads(body).get("page", {}).get("next_cursor") or json.loads(body).get("next_cursor")
    return PathTimes(f"{path}: {len(answers)} pages", answers, status, await server.since())


async def readers(session: aiohttp.ClientSession, server: Server, found: Sequence[str], number: int) -> PathTimes:
    """Measure several readers at once, each of which requests every path."""
    await server.since()
    asked: list[tuple[float, str]] = []

    async def one(first: int) -> None:
        for address in [*found[first:], *found[:first]]:
            took, _, _ = await ask(session, address)
            asked.append((took, address))  # the others append meanwhile

    async with asyncio.TaskGroup() as tasks:
        for reader in range(number):
            tasks.create_task(one(reader * len(found) // number))
    name = f"{number} readers at once, slowest: {max(asked)[1]}"
    return PathTimes(name, [took for took, _ in asked], 200, await server.since())


async def run(partitions: int, size: int, times: int, console: Console) -> bool:
    """Measure every path with topics of one size; return whether no limit is missed."""
    console.print(f"{partitions:,} partitions in topics of {size:,}")
    async with server(partitions, size) as served, aiohttp.ClientSession(served.base) as session:
        found = addresses(served.paths)
        await served.since()
        await asyncio.sleep(_QUIET_S)
        quiet = await served.since()
        seen = []
        for number, address in enumerate(found, 1):
            seen.append(await measure(session, served, address, times))
            console.print(f"[{number}/{len(found)}] {address}", style="dim", markup=False)
        seen.append(await all_pages(session, served, "/v1/partitions"))
        together = await readers(session, served, found, 4)
    show(console, seen, together, quiet)
    missed = [one for one in (*seen, together) if one.has_missed]
    for one in missed:
        hold = f"held the loop for {one.loop['hold_ms']:.1f} ms ({one.loop['hold_cpu_ms']:.1f} of processor)"
        took = f"{max(one.answers):.0f} ms ({one.cpu_ms:.0f} of processor)"
        waited = f"an event waited {one.loop['wait_max_ms']:.1f} ms"
        console.print(f"MISSED {one.path}: {took}, {hold}, {waited}", markup=False)
    return not missed


def show(console: Console, seen: Sequence[PathTimes], together: PathTimes, quiet: Mapping[str, float]) -> None:
    """Print a line for each path, the slowest first."""
    table = Table(
        "path",
        "status",
        "p50 ms",
        "p95 ms",
        "max ms",
        "processor ms",
        "hold ms",
        "of processor",
        "event waits p99",
        "max",
    )
    for one in [*sorted(seen, key=lambda one: -max(one.answers)), together]:
        answers = sorted(one.answers)
        shown = (answers[len(answers) // 2], answers[len(answers) * 95 // 100], answers[-1])
        loop = (one.loop[key] for key in ("hold_ms", "hold_cpu_ms", "wait_p99_ms", "wait_max_ms"))
        table.add_row(one.path, str(one.status), *(f"{value:.1f}" for value in (*shown, one.cpu_ms, *loop)))
    waits = (f"{quiet[key]:.1f}" for key in ("hold_ms", "hold_cpu_ms", "wait_p99_ms", "wait_max_ms"))
    table.add_row("no request", "", "", "", "", "", *waits)
    console.print(table)


def main() -> int:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.http")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=10, help="how often each path is asked for")
    arguments = parser.parse_args()
    console, many = Console(width=160), arguments.partitions
    fast = [asyncio.run(run(many, size, arguments.times, console)) for size in (layout.TOPIC_PARTITIONS, many)]
    return 0 if all(fast) else 1


if __name__ == "__main__":
    sys.exit(main())
