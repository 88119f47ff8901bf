"""Write a report: ``report.html``, ``report.json`` and ``report.md``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replay.facts.schema import Type
from replay.facts.tables import TABLES, Table
from replay.report.markdown import markdown
from replay.report.metadata import ReportMetadata, Tables
from replay.report.page import page
from replay.report.summary import verdict
from replay.report.values import rows_of


def document(tables: Tables, meta: ReportMetadata) -> bytes:
    """Return the report as JSON: the verdict, the metadata, and every complete table."""
    result = verdict(tables, meta)
    report = {
        "verdict": {"sentence": result.sentence, "level": result.level},
        "meta": meta,
        "tables": {table.name: rows_of(table, tables) for table in TABLES},
    }
    return msgspec.json.format(msgspec.json.encode(report), indent=1)


def write_report(tables: Tables, meta: ReportMetadata, folder: Path) -> list[Path]:
    """Write the page, the JSON and the Markdown; return the paths. Each file appears complete or not at all.

    :raises OSError: the folder cannot be created or written
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "report.html": page(tables, meta).encode(),
        "report.json": document(tables, meta),
        "report.md": markdown(tables, meta).encode(),
    }
    return [written(folder / name, content) for name, content in files.items()]


def written(path: Path, content: bytes) -> Path:
    """Write a file, which appears complete or not at all; return the path."""
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(content)
    return draft.replace(path)


ARROW: Final[Mapping[Type, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "ints": pa.list_(pa.int32()),
}
"""The type of a column in Parquet."""


def write_parquet(tables: Tables, folder: Path) -> list[Path]:
    """Write each calculated table as ``NAME.parquet`` (zstd), empty ones too; return the paths.

    :raises OSError: the folder cannot be created or written
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(table, tables, folder / f"{table.name}.parquet") for table in TABLES if table.name in tables]


def _write(table: Table, tables: Tables, path: Path) -> Path:
    schema = pa.schema([(column.name, ARROW[column.type]) for column in table.columns])
    draft = path.with_name(f".{path.name}.part")
    pq.write_table(pa.Table.from_pylist(rows_of(table, tables), schema), draft, compression="zstd")
    return draft.replace(path)
