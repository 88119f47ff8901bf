"""The queue between the event loop, which records, and the writer thread, which writes.

A record gets its number and its stamps when it is put. So a record carries the term and the event in which it was
recorded, however late it is written, and a loss is a known range of numbers. The queue is bounded:
``controllerd.audit.writer`` says what a lost record means.
"""

import threading
from typing import NamedTuple

from controllerd.ports.clock import Clock
from controllerd.record.envelope import Stamps, rows_of
from controllerd.record.records import GapRecord, Record


class StampedRecord(NamedTuple):
    """A record with the values that its envelope takes from the moment of recording."""

    seq: int
    epoch: int
    event: int
    ts_ms: int
    mono_ns: int
    record: Record


class Backlog:
    """A bounded queue from one event loop to one thread."""

    def __init__(self, max_rows: int, clock: Clock) -> None:
        self._stamps = Stamps()
        self.trouble: str | None = None
        """The current error of the disk; None while it takes writes."""
        self.lost = 0
        """The number of records that did not fit."""
        self.gaps = 0
        """The number of gap records so far."""
        self._max_rows = max_rows
        self._clock = clock
        self._changed = threading.Condition()
        self._items: list[StampedRecord] = []
        self._rows = 0
        self._last_seq = 0
        self._first_lost = 0
        self._reason = ""
        self._finished = False

    @property
    def last_seq(self) -> int:
        """The number of the newest record, lost or not."""
        return self._last_seq

    def put(self, *records: Record) -> None:
        """Append the records; drop and count them when the queue is full or finished. Never waits for the disk."""
        with self._changed:
            for record in records:
                rows = rows_of(record)
                self._stamps.before(record)
                # After a first loss all records are lost until ``take``: one gap record names one range of numbers.
                if self._finished or self._first_lost or self._rows + rows > self._max_rows:
                    self._lose()
                else:
                    self._items.append(self._stamp(record))
                    self._rows += rows
                self._stamps.after(record)
            self._changed.notify()

    def _stamp(self, record: Record) -> StampedRecord:
        self._last_seq += 1
        now_ns = int(self._clock.monotonic() * 1e9)
        return StampedRecord(
            self._last_seq, self._stamps.epoch, self._stamps.event, self._clock.now_ms(), now_ns, record
        )

    def _lose(self) -> None:
        self._last_seq += 1
        self.lost += 1
        if not self._first_lost:
            self._first_lost = self._last_seq
            self._reason = self.trouble or "the writer could not keep up"

    def take(self, timeout_s: float | None) -> list[StampedRecord]:
        """Remove and return all queued records, and after a loss a gap record.

        Empty when the time ran out, or when the queue is finished.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._first_lost or self._finished, timeout_s)
            items, self._items, self._rows = self._items, [], 0
            if self._first_lost:
                first, last, self._first_lost = self._first_lost, self._last_seq, 0
                items.append(self._stamp(GapRecord(last - first + 1, first, last, self._reason)))
                self.gaps += 1
            return items

    def pause(self, timeout_s: float) -> bool:
        """Wait between two attempts to write. True, and at once, when the queue is finished."""
        with self._changed:
            return self._changed.wait_for(lambda: self._finished, timeout_s)

    def finish(self) -> None:
        """Take no further records."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    @property
    def is_drained(self) -> bool:
        """Whether the queue is finished and empty."""
        with self._changed:
            return self._finished and not self._items and not self._first_lost
