"""Read one segment of the audit log as batches of facts, in bounded memory; damage becomes facts as well."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from controllerd.audit.chain import RawLine
from controllerd.audit.lines import AuditEntry, BadLine, decode_record
from controllerd.audit.reader import TornTail, Unreadable, newer_schema, read_chunks
from controllerd.record.envelope import UnknownRecord
from controllerd.record.records import SCHEMA_VERSION
from replay.facts.buffer import FactBuffer, FactOrigin
from replay.facts.explode import SOURCE, explode
from replay.ingest.arrow_batches import DAMAGED, NEWER_SCHEMA, TORN_TAIL, to_batch

BATCH_ROWS: Final = 65_536
BATCH_BYTES: Final = 32 * 1024 * 1024
_encode: Final = msgspec.json.Encoder().encode


def read_facts(path: Path, file: str, *, rows: int = BATCH_ROWS, size: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the facts of one segment, plain or compressed, in the order of its lines.

    :param file: the file name in the facts
    :param rows: the approximate number of rows of a batch; the rows of one record stay together
    :param size: the number of bytes of records after which a batch ends as well
    :raises OSError: the path cannot be opened; an error while reading becomes a fact
    """
    facts = _Facts(file)
    for chunk in read_chunks(path):
        for item in chunk if isinstance(chunk, list) else (chunk,):
            facts.add(item)
            if facts.buffer.rows >= rows or facts.size >= size:
                yield facts.take()
    facts.end()
    if facts.buffer.rows:
        yield facts.take()


class _Facts:
    """The facts of the part of a segment that was read."""

    def __init__(self, file: str) -> None:
        self.buffer = FactBuffer()
        self.size = 0
        self._file = file
        self._last: AuditEntry | None = None
        self._newer: _NewerLines | None = None

    def take(self) -> pa.RecordBatch:
        """Return and remove all facts."""
        self.size = 0
        return to_batch(self.buffer.take())

    def add(self, item: RawLine | Unreadable | TornTail) -> None:
        """Add the next line, or the damage in its place."""
        if isinstance(item, RawLine):
            self._line(item)
        elif isinstance(item, Unreadable):
            self._lost(DAMAGED, item.line, item.reason)
        else:
            self._lost(TORN_TAIL, item.line, f"{item.bytes} bytes without an end")

    def end(self) -> None:
        """Add the facts about the whole segment at its end."""
        newer = self._newer
        if newer is not None:
            said = _encode({"first_seq": newer.first_seq, "last_seq": newer.last_seq, "lines": newer.lines}).decode()
            self._lost(NEWER_SCHEMA, newer.line, f"written with {newer_schema(newer.version)}", data=said)

    def _line(self, line: RawLine) -> None:
        entry = self._last = line.entry
        if entry.v > SCHEMA_VERSION:
            self._newer = _with_newer_line(self._newer, line)
        self.size += len(memoryview(entry.data))
        try:
            record = decode_record(entry.kind, entry.data)
        except BadLine:
            record = UnknownRecord(entry.kind)
        try:
            explode(self.buffer, entry, record, file=self._file, line=line.line, digest=line.hash)
        except ValueError as problem:
            self._lost(DAMAGED, line.line, str(problem), entry.seq)

    def _lost(self, kind: str, line: int, reason: str, seq: int | None = None, data: str | None = None) -> None:
        """Add a fact about bytes that cannot be decoded, with the time of the line before."""
        last = self._last
        cluster, node, boot = (last.cluster, last.node, last.boot) if last is not None else (None, None, None)
        ts_ms, mono_us = (last.ts_ms, last.mono_ns // 1000) if last is not None else (None, None)
        place = FactOrigin(cluster, SOURCE, node, boot, 0, seq, 0, ts_ms, mono_us, kind, self._file, line)
        self.buffer.put(place, {"reason": (reason,), "data": (data,)})


class _NewerLines(NamedTuple):
    """Lines of a newer schema than this version knows; ``line`` is the first of them."""

    version: int
    line: int
    first_seq: int
    last_seq: int
    lines: int


def _with_newer_line(before: _NewerLines | None, line: RawLine) -> _NewerLines:
    v, seq = line.entry.v, line.entry.seq
    if before is None:
        return _NewerLines(v, line.line, seq, seq, 1)
    return _NewerLines(max(before.version, v), before.line, before.first_seq, seq, before.lines + 1)
