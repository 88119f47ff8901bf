"""The reports of the controller: records of the audit log, and metrics."""

from typing import Protocol

from controllerd.record.records import Record


class AuditLog(Protocol):
    """The audit log, which keeps everything that the controller read, decided, wrote and sent."""

    def record(self, *records: Record) -> None:
        """Append records. Never blocks."""
        ...

    async def accepted(self) -> None:
        """Wait until the writer has taken all records, at most 200 ms. Called before requests are sent."""
        ...


class ElectionMetrics(Protocol):
    """Metrics of elections, which the partition state machine counts."""

    def count_unclean_elections(self, elections: int) -> None:
        """Count unclean leader elections."""
        ...


class Metrics(ElectionMetrics, Protocol):
    """Metrics of elections and of the handling of events."""

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """Take the seconds that an event waited in the queue and that its handler took."""
        ...
