"""Typed access to the values of rows, by the columns of ``replay.facts.tables``."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controllerd.record.moments import moment
from replay.facts.tables import Table
from replay.report.metadata import Row, Tables


def number(row: Row, key: str) -> int:
    """Return a whole number, 0 for null. :raises TypeError: it is another value."""
    return optional(row, key) or 0


def optional(row: Row, key: str) -> int | None:
    """Return a whole number or null. :raises TypeError: it is another value."""
    value = row.get(key)
    if value is None or isinstance(value, int):
        return value
    raise TypeError(f"{key} is {value!r}, not a whole number")


def text(row: Row, key: str) -> str:
    """Return a text, empty for null."""
    value = row.get(key)
    return "" if value is None else str(value)


def of(tables: Tables, name: str) -> Sequence[Row]:
    """Return the rows of a table; a table that was not calculated has none."""
    return tables.get(name, ())


def total(rows: Iterable[Row], key: str) -> int:
    """Return the sum of a column without nulls."""
    return sum(number(row, key) for row in rows)


def place(row: Row, prefix: str = "") -> tuple[int, int, str, int]:
    """Return the position of a row in the logs: epoch, node, boot, number."""
    boot = text(row, f"{prefix}boot")
    return number(row, f"{prefix}epoch"), number(row, f"{prefix}node"), boot, number(row, f"{prefix}seq")


def clusters(tables: Tables) -> list[str]:
    """Return the ids of all clusters in any table."""
    return sorted({text(row, "cluster") for rows in tables.values() for row in rows if row.get("cluster") is not None})


def by_cluster(tables: Tables, *names: str) -> Mapping[str, Tables]:
    """Return these tables for each cluster, empty if it has no rows; from one pass over all rows."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {name: [] for name in names})
    for name in names:
        for row in of(tables, name):
            found[text(row, "cluster")][name].append(row)
    return found


def rows_of(table: Table, tables: Tables) -> list[dict[str, object]]:
    """Yield the rows of a table with exactly its columns, in their order."""
    names = [column.name for column in table.columns]
    return [{name: row.get(name) for name in names} for row in of(tables, table.name)]


_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:µs|ms|s|min|h|d)\b)")


def unbroken(sentence: str) -> str:
    """Return a sentence without line breaks between a number and its unit."""
    return _BEFORE_UNIT.sub("\u00a0", sentence)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count such as ``1 partition`` or ``1,234 partitions``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sign(start_bound: object, end_bound: object) -> str:
    """Return the sign of a duration between two bounds: ``≥``, ``≤``, ``≈``, or empty where both ends are exact."""
    longer = start_bound == "not after" or end_bound == "not before"
    shorter = start_bound == "not before" or end_bound == "not after"
    return "≈" if longer and shorter else "≥" if longer else "≤" if shorter else ""


def at_command(ms: int, logs: Sequence[str]) -> str:
    """Return the command that shows the cluster at a moment; empty without logs that it can read."""
    if not logs:
        return ""
    return shlex.join(["controllerctl", "replay", "at", "--time", moment(ms), *logs])


def joined(parts: Sequence[str]) -> str:
    """Join texts: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""
