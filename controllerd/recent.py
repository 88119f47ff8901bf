"""The newest audit records in memory, for the live feed, for ``why``, and for metrics. Bounded by rows.

``Recent`` only stores a record. A reader that asks about one partition searches the columns.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final
from uuid import uuid4

from controllerd.ports.clock import Clock
from controllerd.record.envelope import RecentRecord, Stamps, rows_of
from controllerd.record.kinds import EVERY_KIND
from controllerd.record.records import Record, TermRecord

MAX_ROWS: Final = 400_000
"""The most rows in all records: some tens of MiB, which are shared with the audit log's queue."""
MAX_ENTRIES: Final = 20_000
_MAX_TERMS: Final = 500


class Recent:
    """A subscriber of records that keeps the newest ones. Used in the event loop's thread only."""

    takes: Final = EVERY_KIND

    def __init__(self, clock: Clock, *, max_rows: int = MAX_ROWS, max_entries: int = MAX_ENTRIES) -> None:
        self.boot: Final = uuid4().hex[:12]
        """The id of this start. The numbers of records are valid within one start only."""
        self._clock = clock
        self._max_rows = max_rows
        self._max_entries = max_entries
        self._entries: deque[RecentRecord] = deque()
        self.terms: Final[deque[RecentRecord]] = deque(maxlen=_MAX_TERMS)
        """The entries of ``TermRecord``, oldest first. They are few, so more of them are kept."""
        self._rows = 0
        self._count = 0
        self._stamps = Stamps()
        self._arrived = asyncio.Event()

    def record(self, *records: Record) -> None:
        """Store the records, and drop the oldest ones beyond the bounds."""
        now, stamps = self._clock.now_ms(), self._stamps
        for record in records:
            stamps.before(record)
            self._count += 1
            entry = RecentRecord(self._count, now, stamps.epoch, stamps.event, stamps.event_name, record)
            self._entries.append(entry)
            if isinstance(record, TermRecord):
                self.terms.append(entry)
            self._rows += rows_of(record)
            stamps.after(record)
        while self._rows > self._max_rows or len(self._entries) > self._max_entries:
            self._rows -= rows_of(self._entries.popleft().record)
        self._arrived.set()

    @property
    def newest(self) -> int:
        """The number of the newest record; 0 before the first."""
        return self._count

    @property
    def oldest(self) -> int:
        """The number of the oldest stored record; one more than ``newest`` if there is none."""
        return self._entries[0].number if self._entries else self._count + 1

    def after(self, number: int, limit: int) -> list[RecentRecord]:
        """The next ``limit`` entries after this number, oldest first; fewer at the end."""
        start = max(number + 1 - self.oldest, 0)
        return list(islice(self._entries, start, start + limit))

    def newest_first(self) -> Iterator[RecentRecord]:
        """All stored records. Do not await during the iteration, because a new record makes the iterator invalid."""
        return reversed(self._entries)

    async def wait(self, number: int) -> None:
        """Wait until there is a record newer than this number."""
        while self._count <= number:
            self._arrived.clear()
            await self._arrived.wait()
