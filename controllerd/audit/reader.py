"""Reads a directory of the audit log and verifies its hash chain.

Damage does not end the reading: the report names the numbers that are lost or in doubt.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controllerd.audit.branches import LocatedLine
from controllerd.audit.chain import Chain, RawLine
from controllerd.audit.findings import AuditFinding, LinePlace
from controllerd.audit.headcheck import ExpectedHeads
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import AuditEntry, BadLine, Head, decode_line, decode_lines, decode_record, digest
from controllerd.audit.segments import LostBytes, Segment, TailBytes, list_segments, read_batches
from controllerd.audit.verification import verify_chain
from controllerd.core.text import counted
from controllerd.record.envelope import Envelope, UnknownRecord
from controllerd.record.fold import apply
from controllerd.record.kinds import KINDS
from controllerd.record.records import SCHEMA_VERSION, GapRecord, Record
from controllerd.record.state import ClusterState

EXIT_CLEAN: Final = 0
EXIT_DAMAGED: Final = 65
"""``EX_DATAERR``: a part of the log could not be read, or was changed."""


class Unreadable(NamedTuple):
    """A place of a segment at which no line could be read. The reading continues after it."""

    segment: str
    line: int
    reason: str
    is_block: bool = False
    """Whether a block of the file, with an unknown number of lines, could not be read; False: one line could not."""


class TornTail(NamedTuple):
    """Bytes after the last newline of a segment: an unfinished line, left by a crash of the process or host."""

    segment: str
    line: int
    bytes: int


def read_segment(path: Path) -> Iterator[RawLine | Unreadable | TornTail]:
    """Read one segment file, plain or compressed, in order and without verifying the chain.

    Lines count from 1; bytes that cannot be split into lines count as one line.
    :raises OSError: the file cannot be opened.
    """
    for chunk in read_chunks(path):
        if isinstance(chunk, list):
            yield from chunk
        else:
            yield chunk


def read_chunks(path: Path) -> Iterator[list[RawLine] | Unreadable | TornTail]:
    """Read like ``read_segment``, but thousands of lines at a time, which is faster. No list is empty."""
    name, number = path.name, 1
    for batch in read_batches(path):
        if isinstance(batch, LostBytes):
            yield Unreadable(name, number, batch.reason, is_block=True)
            number += 1
        elif isinstance(batch, TailBytes):
            yield TornTail(name, number, len(batch.data))
        else:
            yield from _decoded(name, number, batch)
            number += len(batch)


def _decoded(segment: str, first: int, lines: list[bytes]) -> Iterator[list[RawLine] | Unreadable]:
    try:
        entries = decode_lines(lines)
    except BadLine:
        yield from _decoded_one_by_one(segment, first, lines)
    else:
        yield list(map(RawLine, repeat(segment), count(first), entries, map(digest, lines)))


def _decoded_one_by_one(segment: str, first: int, lines: list[bytes]) -> Iterator[list[RawLine] | Unreadable]:
    for number, line in enumerate(lines, first):
        try:
            yield [RawLine(segment, number, decode_line(line), digest(line))]
        except BadLine as problem:
            yield Unreadable(segment, number, str(problem))


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a complete reading of a directory."""

    lines: int
    head: Head | None
    """The newest line. Keep a copy outside the log."""
    findings: tuple[AuditFinding, ...]
    gaps: tuple[GapRecord, ...]
    """The losses that the writer declared."""
    torn_tails: tuple[TornTail, ...]
    unknown_kinds: dict[str, int]
    newer_lines: int
    """The number of lines of a newer schema, whose fields may have another meaning than in this version."""
    notes: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether there is no finding. Torn tails, declared gaps and unknown kinds are no findings."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """The exit code of a command that read this directory."""
        return EXIT_CLEAN if self.is_intact else EXIT_DAMAGED


class AuditReader:
    """Iterates over ``(envelope, record)`` of one directory in the order of the log. Call ``report`` afterwards.

    ``head`` and ``heads`` (the newest last) are the exported heads. Records of an unknown kind or content are counted
    and left out, or given as ``UnknownRecord`` with ``keep_unknown``.
    :raises OSError: the directory cannot be listed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        head: Head | None = None,
        heads: Sequence[ExportedHead] = (),
        keep_unknown: bool = False,
    ) -> None:
        self._segments = list_segments(directory)
        self._keep_unknown = keep_unknown
        self._expected = ExpectedHeads([*heads, *([head] if head is not None else [])])
        self._chain = Chain(self._expected.heads)
        self._torn: list[TornTail] = []
        self._unknown: Counter[str] = Counter()
        self._unopened: list[str] = []

    def __iter__(self) -> Iterator[tuple[Envelope, Record]]:
        for chunk in self.chunks():
            for raw in chunk:
                record = self._record(raw.entry)
                if record is not None:
                    yield raw.entry.envelope, record

    def _record(self, entry: AuditEntry) -> Record | None:
        try:
            record = decode_record(entry.kind, entry.data)
        except BadLine:
            self._unknown[entry.kind] += 1
            record = UnknownRecord(entry.kind)
        if not isinstance(record, UnknownRecord):
            return record
        return record if self._keep_unknown else None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segment files, in the order of the log."""
        return tuple(self._segments)

    def lines(self) -> Iterator[tuple[Envelope, msgspec.Raw]]:
        """The lines one by one, with their records not decoded."""
        for chunk in self.chunks():
            for raw in chunk:
                yield raw.entry.envelope, raw.entry.data

    def chunks(self) -> Iterator[list[RawLine]]:
        """The lines, many at a time, with their records not decoded: the fastest reading that verifies the chain."""
        for segment in self._segments:
            yield from self._read(segment)

    def _read(self, segment: Segment) -> Iterator[list[RawLine]]:
        name = segment.path.name
        try:
            for chunk in read_chunks(segment.path):
                if isinstance(chunk, list):
                    self._count_unknown(chunk)
                    self._chain.add(chunk, segment.number)
                    yield chunk
                elif isinstance(chunk, TornTail):
                    self._torn.append(chunk)
                else:
                    self._chain.add_unreadable(LinePlace(segment.number, name, chunk.line), is_block=chunk.is_block)
        except OSError as problem:
            self._unopened.append(f"{name} cannot be opened: {problem.strerror}")
            self._chain.add_unreadable(LinePlace(segment.number, name, 1), is_block=True)

    def _count_unknown(self, lines: Sequence[RawLine]) -> None:
        if not {line.entry.kind for line in lines} <= KINDS.keys():
            self._unknown.update(line.entry.kind for line in lines if line.entry.kind not in KINDS)

    def report(self) -> Report:
        """The findings and notes. Call it after the last record; it reads a log with a broken chain once more."""
        findings, notes = verify_chain(self._chain, self._expected, self._locate)
        notes += [*self._unopened, *self._about_foreign_heads()]
        if self._chain.newer_lines:
            notes.append(f"{_lines(self._chain.newer_lines)} written with {newer_schema(self._chain.newest_version)}")
        if not self._expected.heads:
            notes.append("without an exported head, a cut-off end or a rollback of the log cannot be detected")
        return Report(
            self._chain.lines,
            self._chain.head,
            tuple(findings),
            tuple(self._chain.gaps),
            tuple(self._torn),
            dict(self._unknown),
            self._chain.newer_lines,
            tuple(notes),
        )

    def _about_foreign_heads(self) -> Iterator[str]:
        if foreign_heads := self._expected.foreign_heads:
            heads = counted(foreign_heads, "exported head")
            yield f"{heads} of another cluster or node than the newest one: not used"
        owner = self._expected.owner
        if owner is not None and self._chain.runs and all(run.owner != owner for run in self._chain.runs):
            cluster, node = owner
            yield f"the newest exported head is of cluster {cluster} node {node}, but no line is: are the heads right?"

    def _locate(self, hashes: AbstractSet[str]) -> dict[str, list[LocatedLine]]:
        spots: defaultdict[str, list[LocatedLine]] = defaultdict(list)
        for segment in self._segments:
            for raw in _whole_lines(segment):
                if raw.hash in hashes:
                    spots[raw.hash].append(LocatedLine(LinePlace(segment.number, raw.segment, raw.line), raw.entry.seq))
        return spots


def newer_schema(version: int) -> str:
    """The note about lines with a schema that is newer than ours."""
    return (
        f"schema {version}, this version knows {SCHEMA_VERSION}: fields may have another meaning; read the log"
        " with the version that wrote it"
    )


def _lines(number: int) -> str:
    return "1 line was" if number == 1 else f"{number} lines were"


def _whole_lines(segment: Segment) -> Iterator[RawLine]:
    with suppress(OSError):  # the first reading has reported it
        for chunk in read_chunks(segment.path):
            if isinstance(chunk, list):
                yield from chunk


def verify(directory: Path, head: Head | None = None, *, heads: Sequence[ExportedHead] = ()) -> Report:
    """Read a directory and verify it. Exported heads also show whether it was cut off, rewritten or rolled back.

    :raises OSError: the directory cannot be listed.
    """
    reader = AuditReader(directory, head=head, heads=heads)
    for _ in reader.chunks():
        pass
    return reader.report()


def fold_directory(directory: Path) -> ClusterState:
    """The state of the cluster after the newest record of the directory."""
    state = ClusterState()
    for envelope, record in AuditReader(directory):
        apply(state, envelope, record)
    return state
