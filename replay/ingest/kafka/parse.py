"""Parse one of Kafka's log files into raw rows, before the rows of several files are put in order.

A raw row has the columns of a fact that the line contains, the place of the line (``file``, ``line``, ``ts_ms``,
``node``, ``epoch``), and ``newest_epoch``, the newest controller epoch in the file up to that line. Raw rows are plain
data, so files may be parsed in any process and in any order.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from replay.facts.engine import ReplayError
from replay.ingest.kafka.log_entries import LONGEST_LINE, LogEntry, entries, open_log
from replay.ingest.kafka.messages import ParsedMessage, read_message
from replay.ingest.kafka.scala_values import Fields
from replay.ingest.kafka.timestamps import LogClock

LOG_FILE: Final = "log_file"
"""The kind of the last row of every file; ``data`` has the number of its entries by kind."""
LISTED: Final = 1_000
"""Unknown lines of one file that become rows of their own; all are counted."""
_TEXT: Final = 500


class ParseOptions(NamedTuple):
    """The format of the files."""

    pattern: str | None = None
    """log4j's ConversionPattern; None: the known one that fits."""
    zone: str = "UTC"
    longest: int = LONGEST_LINE
    """The most bytes of a line; the rest is cut."""


DEFAULT: Final = ParseOptions()


def parse_file(path: Path, options: ParseOptions = DEFAULT) -> Iterator[Fields]:
    """Return the raw rows of a file, in its order.

    :raises ReplayError: it cannot be opened, no line fits, or there is no such time zone; the text says what to do
    """
    try:
        with open_log(path) as file:
            yield from parse_stream(str(path), file, options)
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror or error}") from error


def parse_stream(name: str, file: BinaryIO, options: ParseOptions = DEFAULT) -> Iterator[Fields]:
    """Return the raw rows of an open ``file``. :raises ReplayError: as `parse_file`."""
    reader = _EntryReader(name)
    try:
        layout, found = entries(name, file, options.pattern, options.longest)
        if layout is not None:
            clock = LogClock(layout.date, options.zone)
            for entry in found:
                yield from reader.rows(entry, clock)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield reader.placed({"kind": "damaged", "reason": f"it cannot be unpacked further: {error}"})
    yield reader.summary()


class _EntryReader:
    """Turn entries into rows, and count them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: Counter[str] = Counter()
        self._newest_epoch = 0
        self._ts_ms = 0
        self._line = 0
        self._node = 0

    def rows(self, entry: LogEntry, clock: LogClock) -> Iterator[Fields]:
        """Yield the rows of an entry."""
        self._line = entry.number
        self._counts["entries"] += 1
        self._counts["cut"] += entry.is_cut
        if entry.date is None:
            yield from self._without_layout(entry)
            return
        found = read_message(entry.message, entry.logger, entry.cause)
        self._counts[found.verdict] += 1
        self._newest_epoch = max(self._newest_epoch, found.newest_epoch)
        if found.rows or found.verdict == "unknown":
            self._ts_ms = clock.milliseconds(entry.date)
            yield from self._facts(found) if found.rows else self._unknown(entry)

    def _facts(self, found: ParsedMessage) -> Iterator[Fields]:
        self._node = found.node
        place: Fields = {
            "ts_ms": self._ts_ms,
            "file": self._name,
            "line": self._line,
            "node": found.node,
            "newest_epoch": self._newest_epoch,
            "epoch": 0 if found.is_broker else found.epoch,
        }
        for row in found.rows:
            yield {**row, **place}

    def _without_layout(self, entry: LogEntry) -> Iterator[Fields]:
        """Yield a row for a line without the layout: the torn end of the file, or an unknown line."""
        if entry.is_torn:
            self._counts["torn"] += 1
            yield self.placed({"kind": "torn_tail"})
            return
        self._counts["unknown"] += 1
        yield from self._unknown(entry)

    def _unknown(self, entry: LogEntry) -> Iterator[Fields]:
        if self._counts["unknown"] <= LISTED:
            yield self.placed({"kind": "unknown_line", "data": json.dumps({"text": entry.text[:_TEXT]})})

    def summary(self) -> Fields:
        """Return the row with the numbers of entries by kind."""
        return self.placed({"kind": LOG_FILE, "data": json.dumps(dict(sorted(self._counts.items())))})

    def placed(self, row: Fields) -> Fields:
        """Return a row about the file, at the last line that was read."""
        place: Fields = {"ts_ms": self._ts_ms, "file": self._name, "line": self._line, "node": self._node}
        return {**row, **place, "newest_epoch": self._newest_epoch, "epoch": 0}
