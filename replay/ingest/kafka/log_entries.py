"""Entries of a log file: lines with what belongs to them, stack traces above all. No file is held in memory."""

import gzip
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from replay.facts.engine import ReplayError
from replay.ingest.kafka.layouts import Layout, compile_layout, fitting

LONGEST_LINE: Final = 32 * 1024 * 1024
"""Bytes. Lists of a large cluster make lines of megabytes; what is longer is cut, and counted."""
_SAMPLE: Final = 400
_SHOWN: Final = 120
_JOINED: Final = 50
"""Lines that a message with line ends in it may have, if a trace follows it."""
_KEPT: Final = 1_000
"""Lines of one entry; the rest of a longer trace is passed over."""


class LogLine(NamedTuple):
    """A physical line."""

    number: int
    text: str
    is_cut: bool
    is_torn: bool
    """The last one of the file, and it has no end."""


class LogEntry(NamedTuple):
    """The output of one call of the logger; ``date`` None: the layout does not fit."""

    number: int
    text: str
    date: str | None = None
    message: str = ""
    logger: str | None = None
    cause: str | None = None
    is_cut: bool = False
    is_torn: bool = False


def open_log(path: Path) -> BinaryIO:
    """A file, unpacked when its name ends with ``.gz``. :raises OSError: it cannot be opened."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[LogLine]:
    """The lines of a file; one that is too long is cut, and the rest of it passed over."""
    number = 0
    while raw := file.readline(longest):
        number += 1
        is_whole = raw.endswith(b"\n")
        is_cut = not is_whole and len(raw) == longest and _pass_over(file, longest)
        text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        yield LogLine(number, text, is_cut, not is_whole and not is_cut)


def _pass_over(file: BinaryIO, longest: int) -> bool:
    """Go to the next line; whether there was anything to pass over."""
    passed = False
    while rest := file.readline(longest):
        passed = True
        if rest.endswith(b"\n"):
            break
    return passed


def layout_of(path: str, sample: Iterable[LogLine], pattern: str | None) -> Layout | None:
    """The layout of a file: the one that was given, or the known one that fits; None for a file without lines.

    :raises ReplayError: no line fits; shows the first one
    """
    texts = [line.text for line in sample if not line.is_torn]
    if not any(texts):
        return None
    given = [compile_layout(pattern)] if pattern else []
    layout = next((each for each in given if any(each.head.match(text) for text in texts)), None)
    if layout is None and not pattern:
        layout = fitting(texts)
    if layout is None:
        wanted = f"the log pattern {pattern!r}" if pattern else "a known layout"
        raise ReplayError(
            f"no line of {path} has {wanted}: give the ConversionPattern of its appender as log pattern. "
            f"It begins with {next(text for text in texts if text)[:_SHOWN]!r}"
        )
    return layout


def entries(
    path: str, file: BinaryIO, pattern: str | None, longest: int = LONGEST_LINE
) -> tuple[Layout | None, Iterator[LogEntry]]:
    """The layout of a file, None when it has no lines, and its entries. :raises ReplayError: no line fits."""
    source = lines(file, longest)
    sample = list(islice(source, _SAMPLE))
    layout = layout_of(path, sample, pattern)
    if layout is None:
        return None, iter(())
    return layout, (_entry(layout, group) for group in _grouped(layout, chain(sample, source)))


def _grouped(layout: Layout, source: Iterable[LogLine]) -> Iterator[list[LogLine]]:
    """A line with the layout, and all behind it that have not; of a long trace only the beginning."""
    begins = layout.head.match
    group: list[LogLine] = []
    for line in source:
        if not group or begins(line.text):
            if group:
                yield group
            group = [line]
        elif len(group) < _KEPT:
            group.append(line)
    if group:
        yield group


def _entry(layout: Layout, group: list[LogLine]) -> LogEntry:
    first = group[0]
    for used in _lengths(len(group)):
        match = layout.line.match("\n".join(line.text for line in group[:used]))
        if match is not None:
            found = match.groupdict()
            cause = next((line.text.strip() for line in group[used:]), None)
            return LogEntry(first.number, first.text, match["date"], match["message"], found.get("logger"), cause)
    return _unfinished(layout, first)


def _lengths(lines_there: int) -> Iterator[int]:
    """Yield possible numbers of lines of a message, likely ones first: one, all (no trace), and fewer (a trace)."""
    yield 1
    if lines_there > 1:
        yield lines_there
        yield from range(2, min(lines_there, _JOINED))


def _unfinished(layout: Layout, line: LogLine) -> LogEntry:
    """A line that was cut still has a beginning; its message ends somewhere, and the logger is not known."""
    head = layout.head.match(line.text) if line.is_cut else None
    if head is None:
        return LogEntry(line.number, line.text, is_torn=line.is_torn)
    return LogEntry(line.number, line.text, head["date"], line.text[head.end() :], is_cut=True)
