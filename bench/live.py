"""``python -m bench.live``: HTTP readers of a whole daemon at 100,000 partitions, on a real ZooKeeper, during events.

Small events arrive all the time: notifications of ISR changes, about twenty a second. The time that each of them
waited, and the time that a broker failure took, are read from the audit log of the daemon. Everything is measured
without readers, with one and with four, and while ``/v1/diff`` compares the cluster. The client polls that comparison
until it has ended; each answer is measured, and the comparison as a whole.

The delay of events is a difference: the slowest event of a measurement, from its arrival to its end, less the slowest
event without a reader.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from rich.console import Console
from rich.table import Table

from bench import layout
from bench.observe import read_requests, spent, worst_ms
from bench.prepare import HEAP_MIB, default_cache, restore, session, template
from bench.run import Plan, Rig
from bench.stubs import stub_brokers
from controllerd.audit.reader import AuditReader
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.record.records import EventBegin, EventEnd
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from controllerd.zk.connection import KazooZooKeeper

ANSWER_MS: Final = 300.0
DELAY_MS: Final = 20.0
_EVENT_EVERY_S: Final = 0.05
_QUIET_S: Final = 4.0
_ROUNDS: Final = 3
_TIMEOUT_S: Final = 120.0
_TOPIC: Final = layout.name(layout.OLD, 7)
PATHS: Final = (
    "/v1/status",
    "/v1/brokers",
    "/v1/topics?limit=2000",
    "/v1/partitions",
    "/v1/partitions?limit=2000",
    "/v1/partitions?under_replicated=true",
    "/v1/partitions?on=3",
    f"/v1/partitions/{_TOPIC}/51",
    f"/v1/partitions/{_TOPIC}/51/why",
    f"/v1/topics/{_TOPIC}/why",
    "/v1/replicas?limit=2000",
    "/v1/elections",
    "/v1/events?limit=2000",
    "/v1/queue",
    "/v1/requests",
    "/metrics",
    "/",
)
"""The paths that operators and their tools read all the time."""
_DIFF: Final = ("/v1/diff?brokers=false", "/v1/diff")
_ASK_AGAIN_S: Final = 0.25
"""Seconds between two polls, as ``controllerctl diff`` polls."""


_HEADS: Final = (
    *("whole ms", "answers", "p50 ms", "p95", "max", "slowest", "events", "wait p50", "p99", "max"),
    *("take p50", "p99", "max", "away ms", "cpu s", "reads", "death ms", "delay ms"),
)


class Span(NamedTuple):
    """One measurement; times in ns of CLOCK_MONOTONIC."""

    name: str
    began_ns: int
    ended_ns: int
    answers: tuple[tuple[float, str], ...]
    """Milliseconds until the last byte, and the address."""
    cpu_s: float
    zk_reads: int

    @property
    def whole(self) -> str:
        """The milliseconds of a comparison; empty for other measurements, whose length is chosen."""
        return f"{(self.ended_ns - self.began_ns) / 1e6:,.0f}" if self.name in _DIFF else ""

    def holds(self, at_ns: int) -> bool:
        """Whether a moment is within the measurement."""
        return self.began_ns <= at_ns <= self.ended_ns


class Waits(NamedTuple):
    """The events of a span, in milliseconds."""

    idle: list[float]
    """The wait of each event that arrived while no event was being processed: only the event loop delayed it."""
    notified: list[float]
    """The processing time of each small event."""
    ended: list[float]
    """The time of each small event including its wait in the queue."""
    death: float | None = None
    """The processing time of the broker failure."""


class Live:
    """A cluster whose daemon serves the measured requests."""

    def __init__(self, rig: Rig, zk: KazooZooKeeper, http: aiohttp.ClientSession, zk_port: int) -> None:
        self.rig = rig
        self._zk = zk
        self._http = http
        self._zk_port = zk_port
        self._count = 0
        self.spans: list[Span] = []

    async def notify(self) -> None:
        """Create a notification of an ISR change every 50 ms, until cancelled."""
        while True:
            self._count += 1
            tp = TopicPartition(layout.name(layout.OLD, self._count % 10), self._count % layout.TOPIC_PARTITIONS)
            path = f"{paths.ISR_CHANGES}/isr_change_{self._count:010}"
            await self._zk.commit([[Create(path, codecs.encode_isr_change([tp]))]])
            await asyncio.sleep(_EVENT_EVERY_S)

    async def measure(self, name: str, work: Callable[[], Awaitable[Sequence[tuple[float, str]]]]) -> None:
        """Run ``work`` as one measurement."""
        pid, reads = self.rig.controller.process.pid, await read_requests(self._zk_port)
        began_ns, before = time.monotonic_ns(), spent(pid).cpu_s
        answers = await work()
        ended_ns, after = time.monotonic_ns(), spent(pid).cpu_s
        reads = await read_requests(self._zk_port) - reads
        self.spans.append(Span(name, began_ns, ended_ns, tuple(answers), after - before, reads))

    async def ask(self, address: str) -> tuple[float, str]:
        """Send a GET request; return its milliseconds and the address."""
        took_ms, _ = await self._timed(address)
        return took_ms, address

    async def _timed(self, address: str) -> tuple[float, str | None]:
        """Return the milliseconds until the last byte, and the ``Location`` to poll, if there is one."""
        began = time.perf_counter()
        async with self._http.get(address) as answer:
            await answer.read()
            answer.raise_for_status()
        return (time.perf_counter() - began) * 1000, answer.headers.get("Location")

    async def read(self, readers: int) -> list[tuple[float, str]]:
        """Let this many readers request every path, each beginning with another one."""

        async def one(first: int) -> list[tuple[float, str]]:
            return [await self.ask(address) for address in [*PATHS[first:], *PATHS[:first]] * _ROUNDS]

        found = await asyncio.gather(*(one(reader * len(PATHS) // readers) for reader in range(readers)))
        return [answer for answers in found for answer in answers]

    async def status(self) -> dict[str, str]:
        """Return the ``meta`` object of ``/v1/status``."""
        async with self._http.get("/v1/status") as answer:
            meta: dict[str, str] = (await answer.json())["meta"]
            return meta

    async def rest(self) -> list[tuple[float, str]]:
        """Wait without a reader."""
        await asyncio.sleep(_QUIET_S)
        return []

    async def compare(self, address: str) -> list[tuple[float, str]]:
        """Compare the cluster with ZooKeeper, and with the brokers' metadata; poll until the comparison has ended."""
        took_ms, where = await self._timed(address)
        answers = [(took_ms, address)]
        while where is not None:
            await asyncio.sleep(_ASK_AGAIN_S)
            took_ms, again = await self._timed(where)
            answers.append((took_ms, "/v1/diff/{id}"))
            where = again
        return answers

    async def kill_broker(self, readers: int) -> list[tuple[float, str]]:
        """End the session of a broker while this many readers send requests."""
        answers: list[tuple[float, str]] = []

        async def read_on(first: int) -> None:
            for address in cycle([*PATHS[first:], *PATHS[:first]]):
                answers.append(await self.ask(address))  # noqa: PERF401  # the list is read before this ends

        async with AsyncExitStack() as stack:
            for reader in range(readers):
                await stack.enter_async_context(_beside(read_on(reader * len(PATHS) // readers)))
            await self.rig.perform("W1", self._zk)
        return answers

    def waits(self, span: Span, log: Path) -> Waits:
        """Return the events of a measurement, from the audit log."""
        waits, free_ns, waited = Waits([], [], []), 0, 0.0
        for envelope, record in AuditReader(log):
            if isinstance(record, EventBegin):
                waited = record.queued_ms
                if span.holds(envelope.mono_ns) and envelope.mono_ns - waited * 1e6 > free_ns:
                    waits.idle.append(waited)
            elif isinstance(record, EventEnd):
                free_ns = envelope.mono_ns
                if span.holds(free_ns) and record.name == "IsrChangeNotification":
                    waits.notified.append(record.took_ms)
                    waits.ended.append(waited + record.took_ms)
                elif span.holds(free_ns) and record.name == "BrokerChange":
                    waits = waits._replace(death=max(waits.death or 0.0, record.took_ms))
        for column in (waits.idle, waits.notified, waits.ended):
            column.sort()
        return waits


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        for failed in await asyncio.gather(task, return_exceptions=True):
            if isinstance(failed, Exception):
                raise failed


@asynccontextmanager
async def _cluster(partitions: int, kept: Path, folder: Path) -> AsyncIterator[Live]:
    """Run ZooKeeper with the prepared data, stubs that serve its metadata, and an active daemon for the block."""
    await asyncio.to_thread(restore, kept, folder / "zookeeper")
    async with AsyncExitStack() as stack:
        server = EmbeddedZooKeeper(folder / "zookeeper", heap_mib=HEAP_MIB, durable=True)
        await stack.enter_async_context(server)
        stubs = await stack.enter_async_context(stub_brokers(layout.BROKERS))
        await stubs.serve_metadata(partitions)
        zk = await stack.enter_async_context(session(server.connect))
        rig = Rig(Plan(partitions, ("W3", "W1"), 0), server, stubs, folder / "controllerd")
        stack.push_async_callback(rig.close)
        for broker in range(1, layout.BROKERS + 1):
            await rig.register(BrokerId(broker))
        await stack.enter_async_context(_beside(rig.probe.run()))
        await rig.perform("W3", zk)
        http = aiohttp.ClientSession(f"http://{rig.controller.http}", timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))
        yield Live(rig, zk, await stack.enter_async_context(http), server.port)


async def run(partitions: int, readers: int, cache: Path, console: Console) -> bool:
    """Measure at this size; return whether every wait is within its limit."""
    kept = await template(partitions, cache)
    with tempfile.TemporaryDirectory(prefix="controllerd-bench-") as name:
        console.print(f"[1/3] {partitions:,} partitions: a controller starts", style="dim", markup=False)
        async with _cluster(partitions, kept, Path(name)) as live:
            await _watch(live, readers, console)
            cluster_id = (await live.status())["cluster_id"]
            await live.rig.controller.process.terminate()  # so that the audit log is complete
            return show(console, live, live.rig.controller.audit_directory(cluster_id))


async def _watch(live: Live, readers: int, console: Console) -> None:
    console.print("[2/3] readers, and /v1/diff, while small events come", style="dim", markup=False)
    async with _beside(live.notify()):
        await live.measure("no reader", live.rest)
        await live.measure("first answers", lambda: live.read(1))
        for number in dict.fromkeys((1, readers)):
            await live.measure(f"readers: {number}", partial(live.read, number))
        for address in _DIFF:
            await live.measure(address, partial(live.compare, address))
        await live.measure("no reader", live.rest)
    console.print(f"[3/3] a broker dies while {readers} read", style="dim", markup=False)
    await live.measure(f"a broker dies, readers: {readers}", lambda: live.kill_broker(readers))


def show(console: Console, live: Live, log: Path) -> bool:
    """Print a line for each measurement; return whether every wait is within its limit.

    The time of ZooKeeper and of the broker failure has no limit here.
    """
    table = Table("", *_HEADS)
    waits = [live.waits(span, log) for span in live.spans]
    alone = max(max(each.ended, default=0.0) for span, each in zip(live.spans, waits, strict=True) if not span.answers)
    missed = []
    for span, each in zip(live.spans, waits, strict=True):
        delay = max(0.0, max(each.ended, default=0.0) - alone)
        table.add_row(*_row(live, span, each), f"{delay:.1f}")
        is_late = each.death is None and max((took_ms for took_ms, _ in span.answers), default=0.0) > ANSWER_MS
        if is_late or max(*each.idle, delay) > DELAY_MS:
            missed.append(span.name)
    console.print(table)
    for name in missed:
        console.print(f"MISSED {name}", markup=False)
    return not missed


def _row(live: Live, span: Span, waits: Waits) -> Iterator[str]:
    """Yield every column but the last."""
    took = sorted(span.answers)
    yield from (span.name, span.whole, str(len(took)), *_shown([took_ms for took_ms, _ in took], 95))
    yield from (took[-1][1] if took else "", str(len(waits.idle)))
    yield from (*_shown(waits.idle, 99), *_shown(waits.notified, 99))
    yield f"{worst_ms(live.rig.probe.asked, span.began_ns, span.ended_ns):.0f}"
    yield from (f"{span.cpu_s:.2f}", str(span.zk_reads))
    yield "" if waits.death is None else f"{waits.death:.0f}"


def _shown(values: Sequence[float], percent: int) -> tuple[str, str, str]:
    """Return the median, this percentile and the maximum as text; empty texts without values."""
    if not values:
        return ("", "", "")
    found = (values[len(values) // 2], values[len(values) * percent // 100], values[-1])
    return (f"{found[0]:.1f}", f"{found[1]:.1f}", f"{found[2]:.1f}")


def main() -> int:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.live")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=4, help="how many at once (default 4)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where prepared ZooKeeper data is kept")
    arguments = parser.parse_args()
    console = Console(width=220)
    return 0 if asyncio.run(run(arguments.partitions, arguments.readers, arguments.cache, console)) else 1


if __name__ == "__main__":
    sys.exit(main())
