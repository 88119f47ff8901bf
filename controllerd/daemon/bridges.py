"""Small adapters between parts that do not know each other, and the guard against a process that slept."""

from collections.abc import Callable

import structlog

from channel_manager.observer import Exchange
from controllerd.audit.writer import AuditWriter
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlRequest
from controllerd.ports import AuditLog
from controllerd.record.records import EventBegin, EventEnd, Record, ResponseRecord, TermRecord
from controllerd.status.metrics.meters import EventMeters

log = structlog.get_logger(__name__)

SLOW_EVENT_S = 1.0
TERM_ENDS = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})


class StampedAudit:
    """The audit log with the stamps that a record alone does not know: the event in work and the controller epoch."""

    def __init__(self, writer: AuditWriter) -> None:
        self._writer = writer

    def record(self, *records: Record) -> None:
        """Append records; those that begin or end something change the stamps of what follows."""
        for record in records:
            if isinstance(record, EventBegin):
                self._writer.set_event(record.number)
            elif isinstance(record, TermRecord) and record.change in {"elected", "renewed"}:
                self._writer.set_epoch(record.controller_epoch)
            self._writer.record(record)
            if isinstance(record, EventEnd):
                self._writer.set_event(0)
            elif isinstance(record, TermRecord) and record.change in TERM_ENDS:
                self._writer.set_epoch(0)

    async def accepted(self) -> None:
        """Wait, for a bounded time, until the writer took everything."""
        await self._writer.accepted()


class RecordedExchanges:
    """Writes every answer of a broker into the audit log."""

    def __init__(self, audit: AuditLog, *, in_full: bool = False) -> None:
        """``in_full``: with the code of every partition, and not only of those with an error."""
        self._audit = audit
        self._in_full = in_full

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """Nothing to record: the answer tells enough."""

    def on_request(
        self, broker: BrokerId, request: ControlRequest, version: int, correlation_id: int, bytes_sent: int
    ) -> None:
        """Requests are recorded when they are queued; the attempts are counted in the answer."""

    def on_response(self, exchange: Exchange) -> None:
        """Record an answer with everything that makes it findable."""
        errors = exchange.response.partition_errors
        self._audit.record(
            ResponseRecord(
                broker=exchange.broker,
                broker_epoch=exchange.request.broker_epoch,
                api=exchange.response.api,
                version=exchange.version,
                correlation_id=exchange.correlation_id,
                bytes_sent=exchange.bytes_sent,
                attempts=exchange.attempts,
                took_ms=round(exchange.took_s * 1000, 3),
                error=exchange.response.error,
                errors={str(tp): int(error) for tp, error in errors.items() if error or self._in_full},
            )
        )


class EventStatistics:
    """Counts events and unclean elections, and says when an event was slow."""

    def __init__(self, meters: EventMeters, slow_s: float = SLOW_EVENT_S) -> None:
        self._meters = meters
        self._slow_s = slow_s

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """An event was handled."""
        self._meters.observe(state, event, queue_s, processing_s)
        if processing_s > self._slow_s:
            log.warning("slow event", event_name=event, state=state, took_s=round(processing_s, 3), waited_s=queue_s)

    def count_unclean_elections(self, elections: int) -> None:
        """So many leaders were elected outside their ISR."""
        self._meters.unclean_elections += elections


class FreezeGuard:
    """Notices that the process slept for so long that its session may be over (SIGSTOP, a suspended machine).

    From then on nothing may be sent before the epoch was found valid: another controller may have
    led meanwhile.

    The limit follows the session time-out that ZooKeeper granted, which may change with every
    connection. A sleep during which it changed is judged by the shorter limit: the thread that
    connects runs apart from the event loop, so that the limit that held during the sleep is not
    known.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float], when_suspicious: Callable[[], None]) -> None:
        """``clock`` gives seconds that go on while the machine is suspended.

        ``when_suspicious`` is called in the very moment in which it is noticed, to stop what is being sent.
        """
        self._limit_s = limit_s
        self._when_suspicious = when_suspicious
        self._clock = clock
        self._seen_at = clock()
        self.doubts = 0
        """How often there was a reason to be suspicious: an answer from before the latest one says nothing."""
        self.reason = ""

    def set_limit(self, limit_s: float) -> None:
        """Set the limit: from now on a sleep of more than ``limit_s`` seconds puts the leadership in doubt."""
        self._limit_s = min(self._limit_s, limit_s)
        self.tick()
        self._limit_s = limit_s

    @property
    def is_suspicious(self) -> bool:
        """Whether somebody else may lead."""
        return self.reason != ""

    def tick(self) -> None:
        """Called several times within the limit while the process runs."""
        now = self._clock()
        if now - self._seen_at > self._limit_s:
            self.suspect("the process was suspended")
        self._seen_at = now

    def suspect(self, reason: str) -> None:
        """Somebody else may lead: nothing may leave until ``validated``."""
        self.doubts += 1
        self.reason = reason
        self._when_suspicious()

    def may_send(self) -> bool:
        """Whether bytes may leave; looks at the clock itself, because the tick may come later than the sender."""
        self.tick()
        return not self.is_suspicious

    def validated(self, doubts: int) -> None:
        """The epoch was still ours when it was asked for, and there had been so many ``doubts`` then."""
        if doubts == self.doubts:
            self.reason = ""
