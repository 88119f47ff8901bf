"""Observe the daemon from outside while it works: its loop, its processor time, its memory, its ZooKeeper."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.prepare import BenchError
from controllerd.dev.ports import LOOPBACK

_EVERY_S: Final = 0.01
_READS: Final = "zk_cnt_readlatency"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Of a process since its start: seconds of processor time, and the peak of its resident memory in MiB."""

    cpu_s: float
    rss_mib: float


def spent(pid: int) -> Spent:
    """The processor time of this process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return Spent((int(fields[11]) + int(fields[12])) / _TICKS, int(peak.split()[1]) / 1024)


def busy_s() -> float:
    """Seconds of processor time that this machine has given to anybody, or had taken away by its host."""
    user, nice, system, _idle, _waiting, irq, softirq, steal, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICKS


async def read_requests(port: int) -> int:
    """Read requests that the ZooKeeper server has answered, a MultiRead of many znodes as one; pings count as well."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"mntr")
    lines = (await reader.read()).decode().splitlines()
    writer.close()
    values = dict(line.split("\t", 1) for line in lines if "\t" in line)
    if _READS not in values:
        raise BenchError("ZooKeeper does not tell its read requests")
    return int(values[_READS])


class Ask(NamedTuple):
    """One request of the probe: when it was made, and the time until its answer."""

    at_ns: int
    took_ns: int


class LoopProbe:
    """Asks ``/livez`` every 10 ms: the longest wait is the longest time that the event loop was away, or a little less.

    It sees what a client sees, so a wait for a processor counts as well; ``late_ns`` tells how late the probe itself
    was, in the same way.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._request = f"GET /livez HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
        self.asked: list[Ask] = []
        self.late_ns: list[Ask] = []

    async def run(self) -> None:
        """Ask until cancelled; while nobody listens, knock."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._ask_on_one_connection()
            await asyncio.sleep(_EVERY_S)

    async def _ask_on_one_connection(self) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            while True:
                await self._ask(reader, writer)
                before = time.monotonic_ns()
                await asyncio.sleep(_EVERY_S)
                self.late_ns.append(Ask(before, time.monotonic_ns() - before - int(_EVERY_S * 1e9)))
        finally:
            writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_ns = time.monotonic_ns()
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        self.asked.append(Ask(at_ns, time.monotonic_ns() - at_ns))


def worst_ms(asked: list[Ask], began_ns: int, ended_ns: int) -> float:
    """The longest wait that overlaps this time, in milliseconds."""
    within = (ask.took_ns for ask in asked if ask.at_ns <= ended_ns and ask.at_ns + ask.took_ns >= began_ns)
    return max(within, default=0) / 1e6
