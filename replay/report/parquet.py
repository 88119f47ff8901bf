"""Writes the tables of a report as Parquet, one file each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from replay.facts.schema import Type
from replay.facts.tables import TABLES, Table
from replay.report.meta import Tables
from replay.report.rows import rows_of

ARROW: Final[Mapping[Type, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "ints": pa.list_(pa.int32()),
}
"""The type of a column in Parquet."""


def write_parquet(tables: Tables, folder: Path) -> list[Path]:
    """Write each table that was computed as ``NAME.parquet`` (zstd), empty ones too; the paths.

    :raises OSError: the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(table, tables, folder / f"{table.name}.parquet") for table in TABLES if table.name in tables]


def _write(table: Table, tables: Tables, path: Path) -> Path:
    schema = pa.schema([(column.name, ARROW[column.type]) for column in table.columns])
    draft = path.with_name(f".{path.name}.part")
    pq.write_table(pa.Table.from_pylist(rows_of(table, tables), schema), draft, compression="zstd")
    return draft.replace(path)
