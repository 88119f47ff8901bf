"""The order in which every engine gives the rows of a table. Pure."""

from collections.abc import Iterable

from replay.facts.engine import Row, Value
from replay.facts.tables import Table


def in_order(table: Table, rows: Iterable[Row]) -> list[Row]:
    """The rows sorted by ``Table.sort`` and then by the other columns, null first."""
    columns = tuple(dict.fromkeys([*table.sort, *(column.name for column in table.columns)]))
    return sorted(rows, key=lambda row: tuple(_key(row[column]) for column in columns))


def _key(value: Value) -> tuple[bool, Value]:
    return (False, 0) if value is None else (True, value)
