"""An audit log in memory, which keeps the records and the moments at which the controller waited for them."""

from typing import TypeVar

from controllerd.record.records import Record

R = TypeVar("R", bound=Record)


class RecordingAudit:
    """Keeps every record in order; ``accepted_at`` holds the number of records present at each wait.

    A test may clear ``records``; ``whole`` keeps everything, as a log does.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.whole: list[Record] = []
        self.accepted_at: list[int] = []

    def record(self, *records: Record) -> None:
        """Append records."""
        self.records.extend(records)
        self.whole.extend(records)

    async def accepted(self) -> None:
        """Note that the controller waited for the records so far."""
        self.accepted_at.append(len(self.records))

    def of(self, kind: type[R]) -> list[R]:
        """The records of one type, in order."""
        return [record for record in self.records if isinstance(record, kind)]

    def kinds(self) -> list[str]:
        """The kinds of all records, in order."""
        return [record.kind for record in self.records]
