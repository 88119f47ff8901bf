"""Ingest by Spark. The ledger, which the local engine uses as well, determines the remaining files."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from pyspark.sql import SparkSession

from replay.facts.engine import IngestResult, Inputs, OnProgress, ReplayProgress
from replay.facts.schema import Column
from replay.ingest.ingest_units import IngestUnit
from replay.ingest.ledger import Ledger
from replay.job.frames import map_batches, struct
from replay.job.inputs import Listed, find, source_of
from replay.job.tasks import COUNTS, into_folder
from replay.local.ingest import IngestCounts

_AT_ONCE: Final = 256
_COUNTS: Final = struct(Column(name, "long", "") for name in COUNTS.names)


class IngestedUnit(NamedTuple):
    """A unit and the counts of its facts."""

    unit: IngestUnit
    counts: IngestCounts


class Sink(Protocol):
    """A destination of facts."""

    def ledger(self) -> AbstractContextManager[Ledger]:
        """Return the ledger of the ingested files; for one writer at a time."""
        ...

    def take(self, listed: Listed) -> Iterator[IngestedUnit]:
        """Read these units, and replace their former facts."""
        ...


class Folder:
    """A folder that the driver and all tasks share: each task writes the facts of its units."""

    def __init__(self, spark: SparkSession, out: Path) -> None:
        self._spark = spark
        self._out = out.absolute()

    def ledger(self) -> AbstractContextManager[Ledger]:
        """Return the ledger, which the local engine uses as well."""
        return Ledger(self._out)

    def take(self, listed: Listed) -> Iterator[IngestedUnit]:
        """Read these units; a file of facts appears complete or not at all."""
        frame, read = source_of(self._spark, listed)
        for row in map_batches(frame, into_folder(read, str(self._out)), _COUNTS).collect():
            yield IngestedUnit(listed.units[row.unit], IngestCounts(row.lines, row.facts, row.problems))


def ingest(spark: SparkSession, inputs: Inputs, sink: Sink, progress: OnProgress) -> IngestResult:
    """Convert the new part of the inputs into facts.

    A file that has grown is read again, and its new facts replace the former ones. After an interruption only
    incomplete files are read again.

    :param progress: receives the number of bytes of the inputs, as stored
    :raises ReplayError: there is nothing to read, or another process writes there
    """
    found = find(spark, inputs)
    with sink.ledger() as ledger:
        new = [listed._replace(units=_new(listed, ledger)) for listed in found]
        counts = list(_take_all(new, sink, ledger, progress))
    files = sum(len(unit.files) for listed in new for unit in listed.units)
    unchanged = sum(len(unit.files) for listed in found for unit in listed.units) - files
    return IngestResult(files, unchanged, *(sum(column) for column in zip(IngestCounts(), *counts, strict=True)))


def _new(listed: Listed, ledger: Ledger) -> list[IngestUnit]:
    """Return the units that are not in the ledger, the largest first, so that no task runs alone at the end."""
    new = (unit for unit in listed.units if not ledger.has(listed.name(unit), unit.files, unit.read_as))
    return sorted(new, key=lambda unit: unit.size, reverse=True)


def _take_all(found: Sequence[Listed], sink: Sink, ledger: Ledger, progress: OnProgress) -> Iterator[IngestCounts]:
    total, done = sum(unit.size for listed in found for unit in listed.units), 0
    progress(ReplayProgress("ingest", 0, total, "bytes"))
    for listed in found:
        for start in range(0, len(listed.units), _AT_ONCE):
            some = listed._replace(units=listed.units[start : start + _AT_ONCE])
            for unit, counts in sink.take(some):
                ledger.note(listed.name(unit), unit.files, unit.read_as, **counts._asdict())
                done += unit.size
                yield counts
            ledger.save()
            progress(ReplayProgress("ingest", done, total, "bytes"))
