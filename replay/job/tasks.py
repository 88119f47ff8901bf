"""The work of a Spark task: convert logs to facts with the functions of the local engine. Spark is not imported here.

A source yields the batches of one unit after the other; a sink turns them into the result of the task.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from replay.ingest.ingest_units import IngestUnit, read_unit
from replay.local.ingest import write_facts

NUMBER: Final = pa.int64()
COUNTS: Final = pa.schema([(name, NUMBER) for name in ("unit", "lines", "facts", "problems")])
Batches = Iterator[pa.RecordBatch]
Read = Callable[[Batches], Iterator[tuple[int, IngestUnit, Batches]]]
"""A source: it turns the rows that Spark passes to a task into units, each with its number and its facts."""


def into_folder(read: Read, out: str) -> Callable[[Batches], Batches]:
    """Return a sink that writes the facts below ``out``, a folder that driver and tasks share; it yields ``COUNTS``."""

    def write(batches: Batches) -> Batches:
        for number, unit, facts in read(batches):
            row = (number, *write_facts(Path(out), unit.name, facts))
            yield pa.RecordBatch.from_arrays([pa.array([value], NUMBER) for value in row], schema=COUNTS)

    return write


def into_rows(read: Read) -> Callable[[Batches], Batches]:
    """Return a sink that passes the facts to Spark."""

    def give(batches: Batches) -> Batches:
        for _, _, facts in read(batches):
            yield from facts

    return give


def on_this_host(units: Sequence[IngestUnit], step: int) -> Read:
    """Return a source of units whose files are on the task's host.

    Each number in the column ``id`` stands for the units of that number, of that number and ``step``, and so on.
    """

    def read(batches: Batches) -> Iterator[tuple[int, IngestUnit, Batches]]:
        for batch in batches:
            for first in batch.column("id").to_pylist():
                for number in range(first, len(units), step):
                    yield number, units[number], read_unit(units[number])

    return read


def from_contents(units: Sequence[IngestUnit], prefix: str) -> Read:
    """Return a source of units from ``path`` and ``content`` of their files; a task gets all files of a unit.

    A file is in a temporary folder while it is read, so that memory does not have to hold its unpacked content.

    :param prefix: the prefix of the paths of the files, which belongs to their names, as ``hdfs://namenode``
    """
    homes = {str(source.path): number for number, unit in enumerate(units) for source in unit.files}

    def read(batches: Batches) -> Iterator[tuple[int, IngestUnit, Batches]]:
        missing = [len(unit.files) for unit in units]
        with TemporaryDirectory() as folder:
            for path, content in files_of(batches, prefix):
                number = homes[path]
                spool(folder, path, content)
                missing[number] -= 1
                if not missing[number]:
                    yield number, units[number], _read_spooled(units[number], folder, prefix)

    return read


def bare(path: str, prefix: str) -> str:
    """Return a path of Hadoop without its prefix."""
    return path.removeprefix(prefix).removeprefix("file://").removeprefix("file:")


def files_of(batches: Batches, prefix: str) -> Iterator[tuple[str, memoryview]]:
    """Yield the files that a task receives: the path without its prefix, and the content."""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield bare(path.as_py(), prefix), memoryview(content.as_buffer())


def spool(folder: str, path: str, content: memoryview) -> Path:
    """Write a file below a folder that is removed with the task; return its path."""
    target = Path(folder + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def _read_spooled(unit: IngestUnit, folder: str, prefix: str) -> Batches:
    spooled = [source._replace(path=Path(folder + str(source.path))) for source in unit.files]
    for batch in read_unit(unit._replace(files=tuple(spooled))):
        yield _renamed(batch, folder, prefix)
    for source in spooled:
        source.path.unlink()


def _renamed(batch: pa.RecordBatch, folder: str, prefix: str) -> pa.RecordBatch:
    """Return the batch with the original paths of the files in place of the spooled ones."""
    for name in ("file", "boot"):
        index = batch.schema.get_field_index(name)
        values = pc.replace_substring(batch.column(index), folder, prefix)
        batch = batch.set_column(index, batch.schema.field(index), values)
    return batch


def names_of(units: Iterable[IngestUnit]) -> list[str]:
    """Return the paths of the files of these units, as Hadoop takes them."""
    return [str(source.path) for unit in units for source in unit.files]
