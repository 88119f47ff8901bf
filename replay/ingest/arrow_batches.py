"""Convert facts to Arrow record batches: the schema of ``replay.facts.schema`` in Arrow's types."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any, Final

import pyarrow as pa

from replay.facts.buffer import Columns, is_constant
from replay.facts.schema import COLUMNS, PLACE, Type

DAMAGED: Final = "damaged"
TORN_TAIL: Final = "torn_tail"
NEWER_SCHEMA: Final = "newer_schema"
PROBLEMS: Final = (DAMAGED, TORN_TAIL, NEWER_SCHEMA, "unknown_kind", "unknown_line")
"""Kinds of facts that readers make of lines that they cannot decode."""
_TYPES: Final[Mapping[Type, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "ints": pa.list_(pa.int32()),
}
SCHEMA: Final = pa.schema([pa.field(column.name, _TYPES[column.type]) for column in COLUMNS])
_BITS: Final[Mapping[Type, int]] = {"int": 31, "long": 63, "ints": 31}
_DAY_MS: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def to_batch(columns: Columns) -> pa.RecordBatch:
    """Convert the rows of a ``FactBuffer``; absent columns are null.

    A record with a number that no column can hold becomes a fact of kind ``damaged``.
    """
    try:
        return _batch(columns)
    except (pa.ArrowInvalid, OverflowError):
        return _batch(_without_misfits(columns))


def _batch(columns: Columns) -> pa.RecordBatch:
    moments = columns["ts_ms"]
    count = len(moments)
    values = {**columns, "date": _days(moments)}
    arrays = [
        _array(values[field.name], field.type) if field.name in values else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Convert a column; a value that is the same in all rows is converted once."""
    if is_constant(values) and not isinstance(values[0], list):
        return pa.repeat(pa.scalar(values[0], kind), len(values))
    return pa.array(values, kind)


def _days(moments: Sequence[int | None]) -> list[str]:
    """Return the day of each moment; nearly always one for all."""
    known = [moment or 0 for moment in moments]
    first, last = min(known, default=0) // _DAY_MS, max(known, default=0) // _DAY_MS
    return [_day(first)] * len(known) if first == last else [_day(moment // _DAY_MS) for moment in known]


@cache
def _day(number: int) -> str:
    """Return a day as partitions are named; a day beyond the calendar becomes the nearest day in it."""
    last = date.max.toordinal() - _EPOCH_DAY
    return date.fromordinal(_EPOCH_DAY + min(max(number, 0), last)).isoformat()


def _without_misfits(columns: Columns) -> Columns:
    """Replace every record with a number out of range by one row of kind ``damaged``."""
    misfits: dict[int, str] = {}
    for column in COLUMNS:
        fits = _fits(column.type)
        if fits is not None:
            for row, value in enumerate(columns.get(column.name, ())):
                if not fits(value):
                    misfits.setdefault(columns["line"][row], f"{column.name} is out of range")
    # Of a record with a misfit only the first row stays.
    kept = [row for row, line in enumerate(columns["line"]) if line not in misfits or not columns["row"][row]]
    picked: Columns = {name: [values[row] for row in kept] for name, values in columns.items()}
    picked.setdefault("reason", [None] * len(kept))
    for row, line in enumerate(picked["line"]):
        if line in misfits:
            _mark_damaged(picked, row, misfits[line])
    return picked


def _mark_damaged(columns: Columns, row: int, reason: str) -> None:
    for column in COLUMNS:
        if column.name in columns:
            fits = _fits(column.type)
            value = columns[column.name][row]
            if column not in PLACE or (fits is not None and not fits(value)):
                columns[column.name][row] = None
    columns["kind"][row], columns["reason"][row] = DAMAGED, reason


@cache
def _fits(kind: Type) -> Callable[[Any], bool] | None:
    bits = _BITS.get(kind)
    if bits is None:
        return None
    bound = 1 << bits
    if kind == "ints":
        return lambda value: value is None or all(-bound <= one < bound for one in value)
    return lambda value: value is None or -bound <= value < bound
