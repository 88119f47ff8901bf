"""What was recorded of late, in memory: for the live feed, for ``why``, and for metrics. Bounded by rows.

It stands before the audit log and passes everything on. Nothing is computed when a record passes; whoever asks about
one partition looks through the columns.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple
from uuid import uuid4

from controllerd.ports import AuditLog, Clock
from controllerd.record.records import EventBegin, EventEnd, Record, TermRecord

MAX_ROWS: Final = 400_000
"""Of partitions in columns, over all that is remembered: some tens of MiB, shared with the audit log's queue."""
MAX_ENTRIES: Final = 20_000
_MAX_TERMS: Final = 500

_TERM_BEGINS: Final = frozenset({"elected", "renewed"})
_IN_A_TERM: Final = _TERM_BEGINS | {"held", "refused"}


class Entry(NamedTuple):
    """One record, when it came, and the event in whose course."""

    number: int
    """Counts from 1 since this process started."""
    at_ms: int
    epoch: int
    """Of the term; 0 outside of one."""
    event: int
    """The event's number in the queue; 0 outside of events."""
    event_name: str
    record: Record


class Recent:
    """An audit log that remembers the newest records. Belongs to the event loop's thread."""

    def __init__(
        self, audit: AuditLog, clock: Clock, *, max_rows: int = MAX_ROWS, max_entries: int = MAX_ENTRIES
    ) -> None:
        self.boot: Final = uuid4().hex[:12]
        """Changes with every start: numbers of another boot mean nothing."""
        self._audit = audit
        self._clock = clock
        self._max_rows = max_rows
        self._max_entries = max_entries
        self._entries: deque[Entry] = deque()
        self.terms: Final[deque[Entry]] = deque(maxlen=_MAX_TERMS)
        """Those of ``TermRecord``, oldest first; they are few and remembered for longer."""
        self._rows = 0
        self._count = 0
        self._epoch = 0
        self._event, self._event_name = 0, ""
        self._arrived = asyncio.Event()

    def record(self, *records: Record) -> None:
        """Remember and pass on."""
        now = self._clock.now_ms()
        for record in records:
            self._stamp(record)
            self._count += 1
            entry = Entry(self._count, now, self._epoch, self._event, self._event_name, record)
            self._entries.append(entry)
            if isinstance(record, TermRecord):
                self.terms.append(entry)
                self._epoch = self._epoch if record.change in _IN_A_TERM else 0
            self._rows += rows_of(record)
            if isinstance(record, EventEnd):
                self._event, self._event_name = 0, ""
        while self._rows > self._max_rows or len(self._entries) > self._max_entries:
            self._rows -= rows_of(self._entries.popleft().record)
        self._arrived.set()
        self._audit.record(*records)

    def _stamp(self, record: Record) -> None:
        if isinstance(record, EventBegin):
            self._event, self._event_name = record.number, record.name
        elif isinstance(record, TermRecord):
            self._epoch = record.controller_epoch if record.change in _TERM_BEGINS else self._epoch

    async def accepted(self) -> None:
        """Wait until the writer took them."""
        await self._audit.accepted()

    @property
    def newest(self) -> int:
        """The number of the newest record; 0 before the first."""
        return self._count

    @property
    def oldest(self) -> int:
        """The number of the oldest that is remembered; one more than ``newest`` when there is none."""
        return self._entries[0].number if self._entries else self._count + 1

    def after(self, number: int, limit: int) -> list[Entry]:
        """The next ``limit`` entries after this number, oldest first; fewer at the end."""
        start = max(number + 1 - self.oldest, 0)
        return list(islice(self._entries, start, start + limit))

    def newest_first(self) -> Iterator[Entry]:
        """Everything that is remembered. Take care not to await while iterating: what comes meanwhile breaks it."""
        return reversed(self._entries)

    async def wait(self, number: int) -> None:
        """Until there is something newer than this number."""
        while self._count <= number:
            self._arrived.clear()
            await self._arrived.wait()


def rows_of(record: Record) -> int:
    """How many partitions (or other rows) a record has in its columns; 1 for one without columns."""
    columns = getattr(record, "topics", None) or getattr(record, "partitions", None)
    return len(columns) if isinstance(columns, tuple | list) and columns else 1
