"""Typed access to rows whose values are only known to be what ``replay.facts.tables`` says."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from replay.facts.tables import Table
from replay.report.meta import Row, Tables


def number(row: Row, key: str) -> int:
    """A whole number, 0 for null. :raises TypeError: when it is something else."""
    return optional(row, key) or 0


def optional(row: Row, key: str) -> int | None:
    """A whole number or null. :raises TypeError: when it is something else."""
    value = row.get(key)
    if value is None or isinstance(value, int):
        return value
    raise TypeError(f"{key} is {value!r}, not a whole number")


def text(row: Row, key: str) -> str:
    """A text, empty for null."""
    value = row.get(key)
    return "" if value is None else str(value)


def of(tables: Tables, name: str) -> Sequence[Row]:
    """The rows of a table; a table that was not computed has none."""
    return tables.get(name, ())


def total(rows: Iterable[Row], key: str) -> int:
    """The sum of a column, nulls left out."""
    return sum(number(row, key) for row in rows)


def place(row: Row, prefix: str = "") -> tuple[int, int, str, int]:
    """Where in the logs a row stands: epoch, node, boot, number."""
    boot = text(row, f"{prefix}boot")
    return number(row, f"{prefix}epoch"), number(row, f"{prefix}node"), boot, number(row, f"{prefix}seq")


def clusters(tables: Tables) -> list[str]:
    """The ids of all clusters that any table speaks of."""
    return sorted({text(row, "cluster") for rows in tables.values() for row in rows if row.get("cluster") is not None})


def by_cluster(tables: Tables, *names: str) -> Mapping[str, Tables]:
    """These tables as each cluster has them, empty where it has no rows; from one pass over all rows."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {name: [] for name in names})
    for name in names:
        for row in of(tables, name):
            found[text(row, "cluster")][name].append(row)
    return found


def rows_of(table: Table, tables: Tables) -> list[dict[str, object]]:
    """The rows of a table with all of its columns, and no others, in their order."""
    names = [column.name for column in table.columns]
    return [{name: row.get(name) for name in names} for row in of(tables, table.name)]
