"""Ingest on this host: each process reads one file at a time and writes Parquet; a ledger notes the read files."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from replay.facts.engine import IngestResult, Inputs, OnProgress, ReplayError, ReplayProgress, silent
from replay.ingest.arrow_batches import NEWER_SCHEMA, PROBLEMS
from replay.ingest.fact_files import FactFiles
from replay.ingest.ingest_units import IngestUnit, find_units, read_unit
from replay.ingest.ledger import Ledger
from replay.local.pool import each, workers

_SMALL: Final = 16 * 1024 * 1024
"""The number of bytes below which starting processes takes longer than the work."""
_SAVE_EVERY_S: Final = 5.0


class IngestCounts(NamedTuple):
    """The counts of one unit, or of all."""

    lines: int = 0
    facts: int = 0
    problems: int = 0


def ingest(inputs: Inputs, out: Path, progress: OnProgress = silent, *, processes: int | None = None) -> IngestResult:
    """Convert the new part of the inputs into facts below ``out``, in bounded memory.

    A file that has grown is read again, and its new facts replace the former ones. After an interruption only
    incomplete files are read again.

    :param progress: receives the number of bytes of the inputs, as stored
    :param processes: the number of processes; None: one per processor, at most two
    :raises ReplayError: there is nothing to read, or a file cannot be read or written; the text says what to do
    """
    units = find_units(inputs)
    with Ledger(out) as ledger:
        # The largest files come first, so that no process reads one alone at the end.
        unread = [unit for unit in units if not ledger.has(unit.name, unit.files, unit.read_as)]
        new = sorted(unread, key=_content, reverse=True)
        counts = list(_ingest_new(new, out, ledger, progress, processes))
    files = sum(len(unit.files) for unit in new)
    unchanged = sum(len(unit.files) for unit in units) - files
    return IngestResult(files, unchanged, *(sum(column) for column in zip(IngestCounts(), *counts, strict=True)))


def _ingest_new(
    units: Sequence[IngestUnit], out: Path, ledger: Ledger, progress: OnProgress, processes: int | None
) -> Iterator[IngestCounts]:
    total, done, saved = sum(unit.size for unit in units), 0, time.monotonic()
    if processes is None:
        processes = workers() if sum(unit.content for unit in units) > _SMALL else 1
    progress(ReplayProgress("ingest", 0, total, "bytes"))
    try:
        for unit, counts in each(partial(ingest_unit, out), units, processes=processes):
            ledger.note(unit.name, unit.files, unit.read_as, **counts._asdict())
            done += unit.size
            progress(ReplayProgress("ingest", done, total, "bytes"))
            if time.monotonic() - saved > _SAVE_EVERY_S:
                ledger.save()
                saved = time.monotonic()
            yield counts
    except OSError as problem:
        raise ReplayError(f"{problem.strerror or problem}: {problem.filename or out}; what was read is kept") from None
    finally:
        ledger.save()


def ingest_unit(out: Path, unit: IngestUnit) -> IngestCounts:
    """Read one unit and write its facts. :raises OSError: it cannot be read, or the disk refuses."""
    return write_facts(out, unit.name, read_unit(unit))


def write_facts(out: Path, name: str, batches: Iterable[pa.RecordBatch]) -> IngestCounts:
    """Replace the facts of the unit with that name. :raises OSError: the disk is full, or refuses."""
    lines = facts = problems = 0
    with FactFiles(out, name) as files:
        for batch in batches:
            files.write(batch)
            lines += pc.sum(pc.and_(pc.equal(batch.column("row"), 0), _is_of_a_line(batch))).as_py()
            facts += batch.num_rows
            problems += pc.sum(pc.is_in(batch.column("kind"), pa.array(PROBLEMS))).as_py()
    return IngestCounts(lines, facts, problems)


def _is_of_a_line(batch: pa.RecordBatch) -> pa.Array:
    return pc.not_equal(batch.column("kind"), NEWER_SCHEMA)


def _content(unit: IngestUnit) -> int:
    return unit.content
