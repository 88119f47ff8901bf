"""The newest lines of a log that may be being written, and the next ones as they come."""

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


class Choice(NamedTuple):
    """The lines that are wanted; None: all."""

    kind: str | None = None
    topic: str | None = None

    def takes(self, line: RawLine) -> bool:
        """Whether it is one of these."""
        if self.kind is not None and line.entry.kind != self.kind:
            return False
        return self.topic is None or self.topic in topics_of(data_of(line))


class Place(NamedTuple):
    """Where a log ends at some moment: the number of its last segment, and how many whole lines that has."""

    segment: int
    lines: int


EVERYTHING: Final = Choice()


def data_of(line: RawLine) -> dict[str, object]:
    """The fields of the record, as they stand in the line; of what was edited to be none of ours, all as ``data``."""
    try:
        data = msgspec.json.decode(line.entry.data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        data = str(problem)
    return data if isinstance(data, dict) else {"data": data}


def topics_of(data: dict[str, object]) -> list[object]:
    """The topics that a record names."""
    columns = [data.get(name) for name in _TOPIC_COLUMNS]
    return [topic for column in columns if isinstance(column, list) for topic in column]


def end_of(directory: Path) -> Place:
    """Where it ends now. :raises OSError: it cannot be read."""
    segments = list_segments(directory)
    return Place(segments[-1].number, sum(1 for _ in _lines(segments[-1]))) if segments else Place(0, 0)


def newest_lines(directory: Path, count: int, choice: Choice = EVERYTHING, end: Place | None = None) -> list[RawLine]:
    """The last lines that are wanted, oldest first, of all or of those before ``end``; damage is passed over.

    :raises OSError: it cannot be read.
    """
    found: deque[RawLine] = deque()
    for segment in reversed(list_segments(directory)):
        lines = (line for line in islice(_lines(segment), _most(segment, end)) if choice.takes(line))
        found.extendleft(reversed(deque(lines, maxlen=count - len(found))))
        if len(found) >= count:
            break
    return list(found)


def _most(segment: Segment, end: Place | None) -> int | None:
    """How many lines of a segment stand before the end; None: all."""
    if end is None or segment.number < end.segment:
        return None
    return end.lines if segment.number == end.segment else 0


def _lines(segment: Segment) -> Iterator[RawLine]:
    for chunk in read_chunks(segment.path):
        if isinstance(chunk, list):
            yield from chunk


def newest_head(directory: Path, exported_ms: int) -> ExportedHead | None:
    """The newest whole line as a head, None of a log without one. :raises OSError: it cannot be read."""
    lines = newest_lines(directory, 1)
    if not lines:
        return None
    entry = lines[0].entry
    head = Head(entry.boot, entry.seq, lines[0].hash)
    return ExportedHead.of(head, cluster=entry.cluster, node=entry.node, epoch=entry.epoch, exported_ms=exported_ms)


def follow(directory: Path, end: Place, pause: Callable[[], None], choice: Choice = EVERYTHING) -> Iterator[RawLine]:
    """The lines that are written behind what was the end, for ever; ``pause`` is called where there is none yet.

    :raises OSError: it cannot be read.
    """
    start, skip = end
    while True:
        for segment in (each for each in list_segments(directory) if each.number >= start):
            for line in islice(_as_written(segment, directory, pause), skip, None):
                if choice.takes(line):
                    yield line
            start, skip = segment.number + 1, 0
        pause()


def _as_written(segment: Segment, directory: Path, pause: Callable[[], None]) -> Iterator[RawLine]:
    """The lines of one segment, until there is a newer one."""
    with opened(segment.path) as file:
        if str(file.name).endswith(COMPRESSED):
            yield from _lines(segment)
        else:
            yield from _growing(file, segment, directory, pause)


def _growing(file: IO[bytes], segment: Segment, directory: Path, pause: Callable[[], None]) -> Iterator[RawLine]:
    """The lines of a file that may be being written: it stays readable when it is compressed meanwhile."""
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
        return  # verify names it; here it is passed over
