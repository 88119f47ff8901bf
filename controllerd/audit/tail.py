"""The newest lines of a log, and the lines that its writer appends later. The log may be in use."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from controllerd.audit.chain import RawLine
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import BadLine, Head, decode_line, digest
from controllerd.audit.reader import read_chunks
from controllerd.audit.segments import COMPRESSED, Segment, list_segments, opened

_TOPIC_COLUMNS: Final = ("topics", "names")


class LineFilter(NamedTuple):
    """A filter of lines by kind and topic; None matches all."""

    kind: str | None = None
    topic: str | None = None

    def matches(self, line: RawLine) -> bool:
        """Whether the line passes the filter."""
        if self.kind is not None and line.entry.kind != self.kind:
            return False
        return self.topic is None or self.topic in topics_of(data_of(line))


class LogEnd(NamedTuple):
    """The end of a log at some moment: the number of its last segment, and the complete lines of that segment."""

    segment: int
    lines: int


EVERYTHING: Final = LineFilter()


def data_of(line: RawLine) -> dict[str, object]:
    """The fields of the record as in the line. A record that is no JSON object is given as the one field ``data``."""
    try:
        data = msgspec.json.decode(line.entry.data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        data = str(problem)
    return data if isinstance(data, dict) else {"data": data}


def topics_of(data: dict[str, object]) -> list[object]:
    """The topics that a record names."""
    columns = [data.get(name) for name in _TOPIC_COLUMNS]
    return [topic for column in columns if isinstance(column, list) for topic in column]


def end_of(directory: Path) -> LogEnd:
    """The current end of a log. :raises OSError: it cannot be read."""
    segments = list_segments(directory)
    return LogEnd(segments[-1].number, sum(1 for _ in _lines(segments[-1]))) if segments else LogEnd(0, 0)


def newest_lines(
    directory: Path, count: int, wanted: LineFilter = EVERYTHING, end: LogEnd | None = None
) -> list[RawLine]:
    """The last ``count`` lines that pass the filter, oldest first, of all or of those before ``end``; no damaged ones.

    :raises OSError: it cannot be read.
    """
    found: deque[RawLine] = deque()
    for segment in reversed(list_segments(directory)):
        lines = (line for line in islice(_lines(segment), _most(segment, end)) if wanted.matches(line))
        found.extendleft(reversed(deque(lines, maxlen=count - len(found))))
        if len(found) >= count:
            break
    return list(found)


def _most(segment: Segment, end: LogEnd | None) -> int | None:
    """The number of lines of a segment before the end; None means all."""
    if end is None or segment.number < end.segment:
        return None
    return end.lines if segment.number == end.segment else 0


def _lines(segment: Segment) -> Iterator[RawLine]:
    for chunk in read_chunks(segment.path):
        if isinstance(chunk, list):
            yield from chunk


def newest_head(directory: Path, exported_ms: int) -> ExportedHead | None:
    """The newest complete line as a head; None if the log has none. :raises OSError: it cannot be read."""
    lines = newest_lines(directory, 1)
    if not lines:
        return None
    entry = lines[0].entry
    head = Head(entry.boot, entry.seq, lines[0].hash)
    return ExportedHead.of(head, cluster=entry.cluster, node=entry.node, epoch=entry.epoch, exported_ms=exported_ms)


def follow(
    directory: Path, end: LogEnd, pause: Callable[[], None], wanted: LineFilter = EVERYTHING
) -> Iterator[RawLine]:
    """The lines that are appended after ``end``, for ever. ``pause`` is called whenever there is no new line.

    :raises OSError: it cannot be read.
    """
    start, skip = end
    while True:
        for segment in (each for each in list_segments(directory) if each.number >= start):
            for line in islice(_as_written(segment, directory, pause), skip, None):
                if wanted.matches(line):
                    yield line
            start, skip = segment.number + 1, 0
        pause()


def _as_written(segment: Segment, directory: Path, pause: Callable[[], None]) -> Iterator[RawLine]:
    """The lines of one segment, until a newer segment exists."""
    with opened(segment.path) as file:
        if str(file.name).endswith(COMPRESSED):
            yield from _lines(segment)
        else:
            yield from _growing(file, segment, directory, pause)


def _growing(file: IO[bytes], segment: Segment, directory: Path, pause: Callable[[], None]) -> Iterator[RawLine]:
    """The lines of a file that its writer may append to. The open file stays readable if it is compressed meanwhile."""
    number, carry = 0, b""
    while True:
        is_last = all(each.number <= segment.number for each in list_segments(directory))
        for piece in file:
            carry += piece
            if carry.endswith(b"\n"):
                number += 1
                yield from _decoded(segment.path.name, number, carry[:-1])
                carry = b""
        if not is_last:
            return
        pause()


def _decoded(segment: str, number: int, line: bytes) -> Iterator[RawLine]:
    try:
        yield RawLine(segment, number, decode_line(line), digest(line))
    except BadLine:
        return  # ``audit verify`` reports it; here it is skipped
