"""Write facts as Parquet below ``facts/cluster=.../date=.../``. The files of one input have one name in every folder.

An input that has grown therefore replaces its former facts, and no reader ever sees a fact twice or half a file.
"""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replay.ingest.arrow_batches import SCHEMA

FACTS: Final = "facts"
PARTITIONED_BY: Final = ("cluster", "date")
FILE_SCHEMA: Final = pa.schema([field for field in SCHEMA if field.name not in PARTITIONED_BY])
"""The columns in the files; the names of the folders have the other columns."""
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of the partition of null in Hive, Spark and DuckDB."""


class FactFiles:
    """The fact files of one input: complete and in place after ``with``, and none after an error."""

    def __init__(self, out: Path, name: str) -> None:
        """:param name: of the input, unique among all inputs of ``out``."""
        self._root = out / FACTS
        self._file = f"{_stem(name)}.parquet"
        self._writers: dict[Path, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        if kind is None:
            self._publish()
        else:
            for folder in self._writers:
                self._temporary(folder).unlink(missing_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append facts of any clusters and days. :raises OSError: the disk is full, or refuses."""
        for folder, part in _partitions(batch):
            path = self._root / folder
            writer = self._writers.get(path)
            if writer is None:
                path.mkdir(parents=True, exist_ok=True)
                writer = self._writers[path] = pq.ParquetWriter(self._temporary(path), FILE_SCHEMA, compression="zstd")
            writer.write_batch(part.select(FILE_SCHEMA.names))

    def _temporary(self, folder: Path) -> Path:
        return folder / f".{self._file}.tmp"  # readers skip names that begin with a dot

    def _publish(self) -> None:
        before = set(self._root.glob(f"*/*/{self._file}"))
        for folder in self._writers:
            self._temporary(folder).replace(folder / self._file)
            before.discard(folder / self._file)
        for path in before:
            path.unlink()


def _stem(name: str) -> str:
    """Return a file name that is unique among all inputs and contains the name of its input."""
    return f"{quote(Path(name).name, safe='')}-{blake2b(name.encode(), digest_size=6).hexdigest()}"


def _partitions(batch: pa.RecordBatch) -> Iterator[tuple[Path, pa.RecordBatch]]:
    """Return the rows by their folder, nearly always one."""
    clusters, dates = (batch.column(name).unique().to_pylist() for name in PARTITIONED_BY)
    for cluster in clusters:
        for date in dates:
            part = batch
            if len(clusters) * len(dates) > 1:
                part = batch.filter(pc.and_(_equal(batch, "cluster", cluster), _equal(batch, "date", date)))
            if part.num_rows:
                yield Path(_folder("cluster", cluster), _folder("date", date)), part


def _equal(batch: pa.RecordBatch, column: str, value: str | None) -> pa.Array:
    values = batch.column(column)
    return values.is_null() if value is None else pc.fill_null(pc.equal(values, value), False)


def _folder(column: str, value: str | None) -> str:
    return f"{column}={quote(value, safe='') if value else NO_VALUE}"
