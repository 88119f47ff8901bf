"""Observe the daemon from outside: its event loop, its processor time, its memory, its ZooKeeper requests."""

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
    """Seconds of processor time of a process since its start, and the peak of its resident memory in MiB."""

    cpu_s: float
    rss_mib: float


def spent(pid: int) -> Spent:
    """Return the processor time and memory of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return Spent((int(fields[11]) + int(fields[12])) / _TICKS, int(peak.split()[1]) / 1024)


def busy_s() -> float:
    """Return the seconds of processor time of all processes of this machine, with those that its host withheld."""
    user, nice, system, _idle, _waiting, irq, softirq, steal, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICKS


async def read_requests(port: int) -> int:
    """Return the read requests that the ZooKeeper server has answered. A MultiRead counts once; pings count as well."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"mntr")
    lines = (await reader.read()).decode().splitlines()
    writer.close()
    values = dict(line.split("\t", 1) for line in lines if "\t" in line)
    if _READS not in values:
        raise BenchError("ZooKeeper does not report its read requests")
    return int(values[_READS])


class Ask(NamedTuple):
    """One request of the probe: when it was made, and the time until its answer."""

    at_ns: int
    took_ns: int


class LoopProbe:
    """Request ``/livez`` every 10 ms. The longest wait is about the longest time that the event loop was blocked.

    The probe measures as a client does, so a wait for a processor counts as well. ``late_ns`` holds the delays of the
    probe itself.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._request = f"GET /livez HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
        self.asked: list[Ask] = []
        self.late_ns: list[Ask] = []

    async def run(self) -> None:
        """Send requests until cancelled; connect again while the port is closed."""
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
    """Return the longest wait that overlaps this time, in milliseconds."""
    within = (ask.took_ns for ask in asked if ask.at_ns <= ended_ns and ask.at_ns + ask.took_ns >= began_ns)
    return max(within, default=0) / 1e6
