"""An audit log in front of another, to look at what passes."""

from abc import ABC, abstractmethod

from controllerd.ports import AuditLog
from controllerd.record.records import Record


class Tap(ABC):
    """Shows each record to ``look`` and passes it on."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def record(self, *records: Record) -> None:
        """Look at records and append them."""
        for record in records:
            self.look(record)
        self._audit.record(*records)

    async def accepted(self) -> None:
        """Wait until the writer took them."""
        await self._audit.accepted()

    @abstractmethod
    def look(self, record: Record) -> None:
        """At one record, before it is written; never blocks."""
