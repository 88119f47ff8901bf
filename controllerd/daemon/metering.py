"""Feeds the metrics that are measured from records, from handled events, and from the event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from controllerd.record.families.terms import FIRST_PHASE
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import EventBegin, EventEnd, Record
from controllerd.status.metrics.meters import EventMeters, Meters

log = structlog.get_logger(__name__)

SLOW_EVENT_S: Final = 1.0
LAG_INTERVAL_S: Final = 0.2


class RecordMetrics:
    """A subscriber of records that counts them by their descriptions, and times the phases of a failover."""

    takes: Final = frozenset(
        record for record, kind in DESCRIPTIONS.items() if kind.counter is not None or kind.phase is not None
    ) | {EventBegin}

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._phases: dict[str, float] | None = None
        """The seconds of each phase of the current event, once it has won an election."""
        self._since = 0.0

    def record(self, *records: Record) -> None:
        """Count the records and time the phases."""
        for record in records:
            self._meters.records.count(record)
            if isinstance(record, EventBegin):
                self._phases, self._since = None, self._meters.clock()
            self._end_phase(record)
            if isinstance(record, EventEnd):
                self._publish(record)

    def _end_phase(self, record: Record) -> None:
        """End the phase that this record concludes, if any. The first phase of a failover starts the measurement."""
        describe = DESCRIPTIONS[type(record)].phase
        phase = describe(record) if describe is not None else None
        if phase == FIRST_PHASE:
            self._phases = {}
        if phase is not None and self._phases is not None:
            now = self._meters.clock()
            self._phases[phase], self._since = now - self._since, now

    def _publish(self, event: EventEnd) -> None:
        if self._phases is not None and event.outcome == "done":
            self._meters.failover_phases.update(self._phases)
        self._phases = None


class EventStatistics:
    """Counts events and unclean elections, and logs slow events."""

    def __init__(self, meters: EventMeters, slow_s: float = SLOW_EVENT_S) -> None:
        self._meters = meters
        self._slow_s = slow_s

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """Count an event that was handled."""
        self._meters.observe(state, event, queue_s, processing_s)
        if processing_s > self._slow_s:
            log.warning(
                "handled slow event", event_name=event, state=state, took_s=round(processing_s, 3), waited_s=queue_s
            )

    def count_unclean_elections(self, elections: int) -> None:
        """Count leaders that were elected from outside the ISR."""
        self._meters.unclean_elections += elections


@asynccontextmanager
async def measuring_lag(meters: Meters) -> AsyncIterator[None]:
    """Measure the lag of the event loop while the block runs."""
    task = asyncio.create_task(_measure_lag(meters), name="loop lag")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _measure_lag(meters: Meters) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        meters.lag.observe(max(0.0, loop.time() - due))
