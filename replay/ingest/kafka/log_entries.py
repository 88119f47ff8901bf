"""Read the entries of a log file: lines with their continuation lines, such as stack traces, in bounded memory."""

import gzip
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from replay.facts.engine import ReplayError
from replay.ingest.kafka.layouts import Layout, compile_layout, fitting

LONGEST_LINE: Final = 32 * 1024 * 1024
"""Bytes. The lists of a large cluster make lines of megabytes. Longer lines are cut, and counted."""
_SAMPLE: Final = 400
_SHOWN: Final = 120
_JOINED: Final = 50
"""The most lines of a message that contains line ends, if a stack trace follows it."""
_KEPT: Final = 1_000
"""The most lines of one entry; the rest of a longer stack trace is skipped."""


class LogLine(NamedTuple):
    """A physical line."""

    number: int
    text: str
    is_cut: bool
    is_torn: bool
    """Whether it is the last line of the file and has no line end."""


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
    """Open a file, and unpack it if its name ends with ``.gz``. :raises OSError: it cannot be opened."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[LogLine]:
    """Yield the lines of a file. A line that is too long is cut, and the rest of it skipped."""
    number = 0
    while raw := file.readline(longest):
        number += 1
        is_whole = raw.endswith(b"\n")
        is_cut = not is_whole and len(raw) == longest and _skip_rest(file, longest)
        text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        yield LogLine(number, text, is_cut, not is_whole and not is_cut)


def _skip_rest(file: BinaryIO, longest: int) -> bool:
    """Go to the next line; return whether any byte was skipped."""
    passed = False
    while rest := file.readline(longest):
        passed = True
        if rest.endswith(b"\n"):
            break
    return passed


def layout_of(path: str, sample: Iterable[LogLine], pattern: str | None) -> Layout | None:
    """Return the layout of a file: the given one, or the known one that fits; None for a file without lines.

    :raises ReplayError: no line fits; the text shows the first line
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
    """Return the layout of a file, None if it has no lines, and its entries. :raises ReplayError: no line fits."""
    source = lines(file, longest)
    sample = list(islice(source, _SAMPLE))
    layout = layout_of(path, sample, pattern)
    if layout is None:
        return None, iter(())
    return layout, (_entry(layout, group) for group in _grouped(layout, chain(sample, source)))


def _grouped(layout: Layout, source: Iterable[LogLine]) -> Iterator[list[LogLine]]:
    """Yield each line with the layout, with the lines without it behind it; of a long trace only the beginning."""
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
    """Return the entry of a line that was cut: the begin of its message, without the logger."""
    head = layout.head.match(line.text) if line.is_cut else None
    if head is None:
        return LogEntry(line.number, line.text, is_torn=line.is_torn)
    return LogEntry(line.number, line.text, head["date"], line.text[head.end() :], is_cut=True)
