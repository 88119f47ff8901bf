"""What the controller reports: records of the audit log, and numbers."""

from typing import Protocol

from controllerd.record.records import Record


class AuditLog(Protocol):
    """The audit log, which keeps everything that the controller read, decided, wrote and sent."""

    def record(self, *records: Record) -> None:
        """Append records; never blocks."""
        ...

    async def accepted(self) -> None:
        """Wait (at most 200 ms) until the writer has taken what was recorded. Called before requests leave."""
        ...


class ElectionMetrics(Protocol):
    """Numbers about elections, which the partition state machine counts."""

    def count_unclean_elections(self, elections: int) -> None:
        """Count unclean leaders that were decided on."""
        ...


class Metrics(ElectionMetrics, Protocol):
    """Numbers about events that are no state of the cluster."""

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """Note how long an event waited and how long it was handled."""
        ...
