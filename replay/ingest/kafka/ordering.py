"""Put raw rows in order: hourly files one after the other, files of a host by time, hosts by epoch and time."""

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
"""The file whose lines come before the lines of other files with the same time: ``controller.log``."""

Parsed = Callable[[Path], Iterable[Fields]]
_Key = tuple[int, int, int]


def age(path: Path) -> tuple[str, int]:
    """Return the sort key of the files of one appender, oldest first: the hour, or a number that grows with age."""
    match = _ROLLED.match(path.name)
    assert match is not None
    return match["hour"] or _LAST, -int(match["number"] or 0)


def appenders(files: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return the files by folder and name without hour, each list oldest first."""
    found: dict[Path, list[Path]] = {}
    for path in sorted(files, key=lambda path: (path.parent, age(path), path.name)):
        match = _ROLLED.match(path.name)
        assert match is not None
        found.setdefault(path.parent / match["base"], []).append(path)
    return found


def in_order(files: Iterable[Path], parsed: Parsed) -> Iterator[Fields]:
    """Return the raw rows of all files, by controller epoch and then by time.

    Clocks of hosts differ, so a controller's last line may have a later time than the first line of the next
    controller; the epochs in the lines distinguish them. ``order_ms`` never decreases within an epoch and a host.
    """
    hosts: dict[Path, list[Iterator[Fields]]] = {}
    for base, paths in appenders(files).items():
        rank = 0 if base.name.startswith(_FIRST_OF_A_MOMENT) else 1
        hosts.setdefault(base.parent, []).append(_forward(chain.from_iterable(map(parsed, paths)), rank))
    streams = [_with_newest_epoch(heapq.merge(*streams, key=_by_time)) for streams in hosts.values()]
    return heapq.merge(*streams, key=_by_epoch)


def _forward(rows: Iterable[Fields], rank: int) -> Iterator[Fields]:
    """Yield the rows of one appender with a time that never decreases.

    Lines that are out of order, and clocks that are set back, would disturb the merge.
    """
    newest = 0
    for row in rows:
        newest = max(newest, _number(row, "ts_ms"))
        yield {**row, "order_ms": newest, "rank": rank}


def _with_newest_epoch(rows: Iterator[Fields]) -> Iterator[Fields]:
    """Yield each row with the newest epoch in the lines of its host.

    Rows before the first line with an epoch get the epoch before it.
    """
    waiting: list[Fields] = []
    newest = 0
    for row in rows:
        waiting.append(row)
        if row_epoch := _number(row, "newest_epoch"):
            if not newest:
                newest = row_epoch - (row["kind"] == "term")
            yield from _with(waiting[:-1], newest)
            newest = max(newest, row_epoch)
            yield from _with(waiting[-1:], newest)
            waiting = []
        elif newest:
            yield from _with(waiting, newest)
            waiting = []
    yield from _with(waiting, newest)


def _with(rows: Sequence[Fields], newest: int) -> Iterator[Fields]:
    return ({**row, "newest_epoch": newest} for row in rows)


def _number(row: Fields, name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


def _by_time(row: Fields) -> _Key:
    return _number(row, "order_ms"), _number(row, "rank"), 0


def _by_epoch(row: Fields) -> _Key:
    return _number(row, "newest_epoch"), _number(row, "order_ms"), _number(row, "rank")
