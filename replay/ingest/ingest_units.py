"""The units that one process reads together: a segment of the audit log, or all of Kafka's logs of a cluster."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from controllerd.audit.segments import COMPRESSED
from replay.facts.buffer import Columns
from replay.facts.engine import Inputs, Row
from replay.facts.schema import NAMES
from replay.ingest.arrow_batches import to_batch
from replay.ingest.audit_segments import BATCH_ROWS, read_facts
from replay.ingest.inputs import InputFile, find_sources
from replay.ingest.kafka.reader import DEFAULT, LogOptions, read_logs

_PACKERS: Final = (".zst", ".gz")
_PACKED: Final = 8
"""The factor, at least, by which compression shrinks a log."""


class IngestUnit(NamedTuple):
    """Files that are read together. ``name`` stays the same when they grow, are compressed or joined by newer ones."""

    name: str
    files: tuple[InputFile, ...]
    options: LogOptions = DEFAULT
    """Options for Kafka's logs."""

    @property
    def size(self) -> int:
        """The bytes of the files as stored."""
        return sum(source.size for source in self.files)

    @property
    def read_as(self) -> str:
        """Return the options of the operator as text: with other options the files are read again."""
        return "" if self.options == DEFAULT else f"{self.options.pattern or 'any pattern'}, {self.options.zone}"

    @property
    def content(self) -> int:
        """The approximate number of bytes after unpacking."""
        return sum(source.size * (_PACKED if source.name.endswith(_PACKERS) else 1) for source in self.files)


def find_units(inputs: Inputs) -> list[IngestUnit]:
    """Return everything that can be read, in a stable order.

    :raises ReplayError: a place has nothing that can be read; the text says what to do
    """
    return units_of(find_sources(inputs.paths, inputs.log_format), options_of(inputs))


def options_of(inputs: Inputs) -> LogOptions:
    """Return the options for Kafka's logs."""
    return LogOptions(inputs.cluster or DEFAULT.cluster, inputs.log_pattern, inputs.log_timezone)


def units_of(sources: Sequence[InputFile], options: LogOptions = DEFAULT) -> list[IngestUnit]:
    """Group files into units. All of Kafka's logs of a cluster are one unit, so every run has to name all of them."""
    units = [_segment(source) for source in sources if source.format == "audit"]
    logs = tuple(source for source in sources if source.format == "kafka")
    return [*units, IngestUnit(f"kafka-logs-of-{options.cluster}", logs, options)] if logs else units


def read_unit(unit: IngestUnit) -> Iterator[pa.RecordBatch]:
    """Yield the facts of a unit in order, in bounded memory.

    :raises OSError: a file cannot be opened. :raises ReplayError: Kafka's logs cannot be decoded
    """
    logs = [source.path for source in unit.files if source.format == "kafka"]
    for source in unit.files:
        if source.format == "audit":
            yield from read_facts(source.path, source.name)
    if logs:
        yield from map(to_batch, _by_column(read_logs(logs, unit.options)))


def _by_column(rows: Iterable[Row]) -> Iterator[Columns]:
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == BATCH_ROWS:
            yield {name: [one[name] for one in waiting] for name in NAMES}
            waiting = []
    if waiting:
        yield {name: [one[name] for one in waiting] for name in NAMES}


def _segment(source: InputFile) -> IngestUnit:
    name = source.name
    return IngestUnit(name.removesuffix(".zst") if name.endswith(COMPRESSED) else name, (source,))
