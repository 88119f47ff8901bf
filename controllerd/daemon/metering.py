"""What the metrics learn beside the parts that they measure: from records that pass, and from the loop itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from controllerd.daemon.tap import Tap
from controllerd.ports import AuditLog
from controllerd.record.records import EventBegin, EventEnd, Record, SnapshotBegin, SnapshotEnd, TermRecord
from controllerd.status.metrics.meters import Meters

LAG_EVERY_S: Final = 0.2
_TERM_BEGINS: Final = frozenset({"elected", "renewed"})


class MeteredAudit(Tap):
    """An audit log that times the phases of an election and counts events that failed. Passes everything on."""

    def __init__(self, audit: AuditLog, meters: Meters) -> None:
        super().__init__(audit)
        self._meters = meters
        self._phases: dict[str, float] | None = None
        """Those of the event in work, once it has won an election."""
        self._since = 0.0

    def look(self, record: Record) -> None:
        """See ``Tap``."""
        match record:
            case EventBegin():
                self._phases, self._since = None, self._meters.clock()
            case TermRecord(change=change) if change in _TERM_BEGINS:
                self._phases = {}
                self._ended("election")
            case SnapshotBegin(periodic=False):
                self._ended("preparation")
            case SnapshotEnd():
                self._ended("loading")
            case EventEnd():
                self._end(record)
            case _:
                pass

    def _ended(self, phase: str) -> None:
        if self._phases is not None:
            now = self._meters.clock()
            self._phases[phase], self._since = now - self._since, now

    def _end(self, event: EventEnd) -> None:
        if event.outcome == "error":
            self._meters.events.failed(event.name)
        self._ended("bringing online")
        if self._phases is not None and event.outcome == "done":
            self._meters.failover_phases.update(self._phases)
        self._phases = None


@asynccontextmanager
async def measuring_lag(meters: Meters) -> AsyncIterator[None]:
    """While the block runs, it is measured how late the loop is."""
    task = asyncio.create_task(_measure_lag(meters), name="loop lag")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _measure_lag(meters: Meters) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        meters.lag.observe(max(0.0, loop.time() - due))
