"""Converts records to facts and back, for the descriptions of kinds. Pure.

A fact is one row of ``replay.facts.schema``. A record has one fact or, if it has columns, one for each partition. A
field becomes the column that the description names; a field without a column is JSON in the column ``data``.
``FactRows`` restores records from facts, for the kinds that the fold applies.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final

import msgspec

from controllerd.record.records import Record

Values = dict[str, Sequence[Any]]
Facts = tuple[int, Values]
"""The number of rows, and the values of their columns. For no rows, ``replay.facts.explode`` makes one."""
PARTITION: Final = {"topic": "topics", "partition": "partitions"}
"""The two columns of every record with a row for each partition."""
_encode: Final = msgspec.json.Encoder().encode


def micros(milliseconds: float) -> int:
    """Convert a duration from milliseconds to microseconds, the unit of facts."""
    return round(milliseconds * 1000)


def as_json(value: object) -> tuple[str]:
    """The column ``data``, in which only the first row has a value."""
    return (_encode(value).decode(),)


def json_of(record: Record, *names: str) -> tuple[str]:
    """The column ``data`` with these fields of the record."""
    return as_json({name: getattr(record, name) for name in names})


def one_row(kind: type[Record], **columns: str) -> Callable[[Any], Facts]:
    """A converter to one row. ``columns`` names the field of each column; the other fields go into ``data``."""
    rest = [one.name for one in fields(kind) if one.name not in columns.values()]
    return partial(_one_row, columns=columns, data=rest)


def _one_row(record: Record, columns: Mapping[str, str], data: Sequence[str]) -> Facts:
    row: Values = {column: (getattr(record, name),) for column, name in columns.items()}
    if data:
        row["data"] = json_of(record, *data)
    return 1, row


def many_rows(**columns: str) -> Callable[[Any], Facts]:
    """A converter to one row for each element. ``columns`` names the field of each column."""
    return partial(_many_rows, columns=columns)


def _many_rows(record: Record, columns: Mapping[str, str]) -> Facts:
    found = {column: getattr(record, name) for column, name in columns.items()}
    return len(next(iter(found.values()))), found


def broker_rows(record: Any, **columns: str) -> Facts:
    """Make a row for each partition of one broker; without partitions, one row with only the broker."""
    count = max(len(record.topics), 1)
    values: Values = {column: getattr(record, name) or [None] * count for column, name in columns.items()}
    return count, {"broker": [record.broker] * count, **values, "data": as_json({"continues": record.continues})}


class FactRows:
    """The facts of one record: the rows from ``start`` up to ``stop`` of a table of columns."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop

    def of(self, *names: str) -> list[list[Any]]:
        """The values of these columns; empty if the record had no rows, so that its only fact is empty."""
        first = self._columns.get(names[0])
        stop = self._stop if first is not None and first[self._start] is not None else self._start
        return [list(self._columns[name][self._start : stop]) if stop > self._start else [] for name in names]

    def nullable(self, name: str, count: int) -> list[Any]:
        """The first ``count`` values of a column that may be absent."""
        column = self._columns.get(name)
        return list(column[self._start : self._start + count]) if column is not None else [None] * count

    def one(self, name: str) -> Any:
        """The value of the first row."""
        column = self._columns.get(name)
        return column[self._start] if column is not None else None

    @property
    def data(self) -> dict[str, Any]:
        """The fields without a column; empty if the record's first row is in another part of the facts."""
        found = self.one("data")
        return json.loads(found) if found is not None else {}

    @property
    def continues(self) -> bool:
        """Whether the rows continue a previous record, or a previous part of the same record."""
        return bool(self.one("row") > 0 or self.data.get("continues"))
