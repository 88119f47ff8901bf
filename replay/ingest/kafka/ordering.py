"""The order of raw rows: hourly files in a row, files of a host by time, hosts by epoch and time."""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from replay.ingest.kafka.scala_values import Fields

_ROLLED: Final = re.compile(r"^(?P<base>.*?)(?:\.(?P<hour>\d{4}-\d\d-\d\d(?:-\d\d)*)|\.(?P<number>\d+))?(?:\.gz)?$")
_LAST: Final = "9999"
_FIRST_OF_A_MOMENT: Final = "controller"

Parsed = Callable[[Path], Iterable[Fields]]
_Key = tuple[int, int, int]


def age(path: Path) -> tuple[str, int]:
    """Return the sort key of the files of one appender, oldest first: the hour, or a number that grows with age."""
    match = _ROLLED.match(path.name)
    assert match is not None
    return match["hour"] or _LAST, -int(match["number"] or 0)


def appenders(files: Iterable[Path]) -> dict[Path, list[Path]]:
    """The files by folder and name without hour, each list oldest first."""
    found: dict[Path, list[Path]] = {}
    for path in sorted(files, key=lambda path: (path.parent, age(path), path.name)):
        match = _ROLLED.match(path.name)
        assert match is not None
        found.setdefault(path.parent / match["base"], []).append(path)
    return found


def in_order(files: Iterable[Path], parsed: Parsed) -> Iterator[Fields]:
    """The raw rows of all files, by controller epoch and then by time.

    Clocks of hosts differ, and a controller's last line may be stamped later than the first of the next one; the
    epochs that the lines name tell them apart. ``order_ms`` of a row never goes back within an epoch and a host.
    """
    hosts: dict[Path, list[Iterator[Fields]]] = {}
    for base, paths in appenders(files).items():
        rank = 0 if base.name.startswith(_FIRST_OF_A_MOMENT) else 1
        hosts.setdefault(base.parent, []).append(_forward(chain.from_iterable(map(parsed, paths)), rank))
    streams = [_heard(heapq.merge(*streams, key=_by_time)) for streams in hosts.values()]
    return heapq.merge(*streams, key=_by_epoch)


def _forward(rows: Iterable[Fields], rank: int) -> Iterator[Fields]:
    """Rows of one appender: lines that are out of order, and clocks that are set back, do not disturb the merge."""
    newest = 0
    for row in rows:
        newest = max(newest, _number(row, "ts_ms"))
        yield {**row, "order_ms": newest, "rank": rank}


def _heard(rows: Iterator[Fields]) -> Iterator[Fields]:
    """Yield each row with the newest epoch that its host has named; rows before the first such get the epoch before."""
    waiting: list[Fields] = []
    heard = 0
    for row in rows:
        waiting.append(row)
        if row_heard := _number(row, "heard"):
            if not heard:
                heard = row_heard - (row["kind"] == "term")
            yield from _with(waiting[:-1], heard)
            heard = max(heard, row_heard)
            yield from _with(waiting[-1:], heard)
            waiting = []
        elif heard:
            yield from _with(waiting, heard)
            waiting = []
    yield from _with(waiting, heard)


def _with(rows: Sequence[Fields], heard: int) -> Iterator[Fields]:
    return ({**row, "heard": heard} for row in rows)


def _number(row: Fields, name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


def _by_time(row: Fields) -> _Key:
    return _number(row, "order_ms"), _number(row, "rank"), 0


def _by_epoch(row: Fields) -> _Key:
    return _number(row, "heard"), _number(row, "order_ms"), _number(row, "rank")
