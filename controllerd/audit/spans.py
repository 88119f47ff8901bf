"""The lines of a log between two moments, and the totals of a log by kind."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from controllerd.audit.chain import RawLine
from controllerd.audit.reader import read_chunks
from controllerd.audit.segments import Segment, list_segments
from controllerd.audit.tail import EVERYTHING, LineFilter

SKEW_MS: Final = 60_000
"""The tolerated step of a wall clock: a clock that was set back by this much hides no line."""


class TimeSpan(NamedTuple):
    """A time span in milliseconds since 1970, its end excluded; None means no bound."""

    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, line: RawLine) -> bool:
        """Whether a line was written in the span."""
        since = self.since_ms is None or line.entry.ts_ms >= self.since_ms
        return since and (self.until_ms is None or line.entry.ts_ms < self.until_ms)


def lines_within(directory: Path, span: TimeSpan, wanted: LineFilter = EVERYTHING) -> Iterator[RawLine]:
    """The readable lines of a span that pass the filter, oldest first. :raises OSError: the log cannot be read."""
    for segment in _segments_of(list_segments(directory), span):
        for chunk in read_chunks(segment.path):
            if isinstance(chunk, list):
                yield from (line for line in chunk if span.has(line) and wanted.matches(line))


def _segments_of(segments: list[Segment], span: TimeSpan) -> Iterator[Segment]:
    """The segments that may have lines of the span. A segment ends when the next one begins."""
    begins = [_begin_ms(segment) for segment in segments]
    for number, segment in enumerate(segments):
        following = begins[number + 1] if number + 1 < len(segments) else None
        is_over = span.since_ms is not None and following is not None and following < span.since_ms - SKEW_MS
        begin = begins[number]
        is_later = span.until_ms is not None and begin is not None and begin > span.until_ms + SKEW_MS
        if not is_over and not is_later:
            yield segment


def _begin_ms(segment: Segment) -> int | None:
    """The time of the first complete line; None if the segment has none."""
    for chunk in read_chunks(segment.path):
        if isinstance(chunk, list):
            return chunk[0].entry.ts_ms
    return None


@dataclass(slots=True)
class LogTotals:
    """The number and size of records by kind. Bytes are those of the records before compression."""

    records: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    epochs: set[int] = field(default_factory=set)
    """The controller epochs; 0 is the time without the role."""
    boots: set[str] = field(default_factory=set)
    first_ms: int | None = None
    last_ms: int | None = None

    def add(self, line: RawLine) -> None:
        """Add a line to the totals."""
        entry = line.entry
        self.records[entry.kind] += 1
        self.bytes[entry.kind] += memoryview(entry.data).nbytes
        self.epochs.add(entry.epoch)
        self.boots.add(entry.boot)
        self.first_ms = entry.ts_ms if self.first_ms is None else min(self.first_ms, entry.ts_ms)
        self.last_ms = entry.ts_ms if self.last_ms is None else max(self.last_ms, entry.ts_ms)
