"""Collect facts record by record, and return them column by column when a batch is full. Pure.

A column that few rows have needs no memory for the others: nulls are filled in when the column is used again.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

Columns = dict[str, list[Any]]
"""Values by the name of the column, all of one length; a column in which every row is null may be absent."""

_HASH_BYTES: Final = 8


class FactOrigin(NamedTuple):
    """The origin of one record: the columns that all of its rows share, see ``facts.schema``.

    ``date`` is not one of them: it is calculated from ``ts_ms`` when a batch is complete.
    """

    cluster: str | None
    source: str
    node: int | None
    boot: str | None
    epoch: int
    seq: int | None
    event: int
    ts_ms: int | None
    mono_us: int | None
    kind: str
    file: str
    line: int


class UnevenColumns(ValueError):
    """The columns of one record differ in length: controllerd did not write it, or it is damaged."""


class FactBuffer:
    """Collect rows; ``rows`` is their number."""

    def __init__(self) -> None:
        self.rows = 0
        self._places: list[FactOrigin] = []
        self._counts: list[int] = []
        self._columns: Columns = {}

    def put(self, place: FactOrigin, columns: Mapping[str, Sequence[Any]], count: int = 1) -> None:
        """Add the rows of one record.

        :param columns: values per row by column; ``hash``, ``prev`` and ``data`` may have the first row's only
        :raises UnevenColumns: another column has not ``count`` values; nothing was put in
        """
        for name, values in columns.items():
            if len(values) != count and name not in _FIRST_ROW_ONLY:
                raise UnevenColumns(f"{len(values)} values of {name} for {count} rows")
        mine, start = self._columns, self.rows
        for name, values in columns.items():
            column = mine.get(name)
            if column is None:
                column = mine[name] = []
            if (missing := start - len(column)) > 0:
                column.extend(repeat(None, missing))
            column.extend(values)
        self._places.append(place)
        self._counts.append(count)
        self.rows = start + count

    def take(self) -> Columns:
        """Return all rows in the order in which they were added, and empty the buffer."""
        columns = self._columns
        for column in columns.values():
            column.extend(repeat(None, self.rows - len(column)))
        counts = self._counts
        for name, values in zip(FactOrigin._fields, zip(*self._places, strict=True), strict=True):
            columns[name] = _spread(values, counts, self.rows)
        columns["row"] = list(chain.from_iterable(map(range, counts)))
        self.rows, self._places, self._counts, self._columns = 0, [], [], {}
        return columns


def _spread(values: Sequence[Any], counts: Sequence[int], rows: int) -> list[Any]:
    """Repeat the value of each record as often as the record has rows."""
    if is_constant(values):
        return [values[0]] * rows
    return list(chain.from_iterable(map(repeat, values, counts)))


def is_constant(values: Sequence[Any]) -> bool:
    """Return whether all values are equal; the two ends decide most cases."""
    return bool(values) and values[0] == values[-1] and values.count(values[0]) == len(values)


_FIRST_ROW_ONLY: Final = frozenset({"hash", "prev", "data"})


@lru_cache(maxsize=64)  # the hash of a line is the `prev` of the next line
def short_hash(digest: str) -> int:
    """Return the first eight bytes of a hexadecimal hash as a signed number. :raises ValueError: it is no hash."""
    return int.from_bytes(bytes.fromhex(digest[: 2 * _HASH_BYTES]), "big", signed=True)
