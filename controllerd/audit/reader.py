"""Reads a directory of the audit log back: tolerant of damage, exact about what is lost, judging the hash chain."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controllerd.audit.branches import Spot
from controllerd.audit.chain import Chain, RawLine
from controllerd.audit.findings import Finding, Place
from controllerd.audit.headcheck import Expectation
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import BadLine, Entry, Head, decode_line, decode_lines, decode_record, digest
from controllerd.audit.segments import Lost, Segment, Tail, list_segments, read_batches
from controllerd.audit.verification import verify_chain
from controllerd.core.text import counted
from controllerd.record.envelope import Envelope, UnknownRecord
from controllerd.record.fold import apply
from controllerd.record.kinds import KINDS
from controllerd.record.records import SCHEMA_VERSION, GapRecord, Record
from controllerd.record.state import ClusterState

EXIT_CLEAN: Final = 0
EXIT_DAMAGED: Final = 65
"""``EX_DATAERR``: something could not be read, or was tampered with."""


class Unreadable(NamedTuple):
    """At this place of a segment no line could be read; after it the reading went on."""

    segment: str
    line: int
    reason: str
    is_block: bool = False
    """Not one line but a block of the file, whole or in part."""


class TornTail(NamedTuple):
    """Bytes after the last newline of a segment: the line that was being written when the process or host died."""

    segment: str
    line: int
    bytes: int


def read_segment(path: Path) -> Iterator[RawLine | Unreadable | TornTail]:
    """All that is in one segment file, plain or compressed, in order and without judging the chain.

    Lines count from 1; bytes that cannot even be split into lines count as one.
    :raises OSError: it cannot be opened.
    """
    for chunk in read_chunks(path):
        if isinstance(chunk, list):
            yield from chunk
        else:
            yield chunk


def read_chunks(path: Path) -> Iterator[list[RawLine] | Unreadable | TornTail]:
    """As ``read_segment``, thousands of lines at a time, which is fast; no list is empty."""
    name, number = path.name, 1
    for batch in read_batches(path):
        if isinstance(batch, Lost):
            yield Unreadable(name, number, batch.reason, is_block=True)
            number += 1
        elif isinstance(batch, Tail):
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
    """The newest line; to be kept elsewhere."""
    findings: tuple[Finding, ...]
    gaps: tuple[GapRecord, ...]
    """Losses that the writer itself declared."""
    torn_tails: tuple[TornTail, ...]
    unknown_kinds: dict[str, int]
    newer_lines: int
    """Lines of a newer schema: fields of theirs may mean something else than this version takes them for."""
    notes: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is damaged; torn tails, declared gaps and unknown kinds are no damage."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """The exit code of a command that read this directory."""
        return EXIT_CLEAN if self.is_intact else EXIT_DAMAGED


class AuditReader:
    """Iterates over ``(envelope, record)`` of one directory in the order of the log; ``report`` when it is through.

    ``head`` and ``heads`` (the newest last) are what was exported. Kinds and contents that this version does not know
    are counted and left out, or given as ``UnknownRecord`` with ``keep_unknown``.
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
        self._expected = Expectation([*heads, *([head] if head is not None else [])])
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

    def _record(self, entry: Entry) -> Record | None:
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
        """The files that are read."""
        return tuple(self._segments)

    def lines(self) -> Iterator[tuple[Envelope, msgspec.Raw]]:
        """The lines one by one with their records undecoded."""
        for chunk in self.chunks():
            for raw in chunk:
                yield raw.entry.envelope, raw.entry.data

    def chunks(self) -> Iterator[list[RawLine]]:
        """The lines with their records undecoded, many at a time: the fastest way through a log, judging its chain."""
        for segment in self._segments:
            yield from self._read(segment)

    def _read(self, segment: Segment) -> Iterator[list[RawLine]]:
        name = segment.path.name
        try:
            for chunk in read_chunks(segment.path):
                if isinstance(chunk, list):
                    self._count_unknown(chunk)
                    self._chain.see(chunk, segment.number)
                    yield chunk
                elif isinstance(chunk, TornTail):
                    self._torn.append(chunk)
                else:
                    self._chain.unreadable(Place(segment.number, name, chunk.line), is_block=chunk.is_block)
        except OSError as problem:
            self._unopened.append(f"{name} cannot be opened: {problem.strerror}")
            self._chain.unreadable(Place(segment.number, name, 1), is_block=True)

    def _count_unknown(self, lines: Sequence[RawLine]) -> None:
        if not {line.entry.kind for line in lines} <= KINDS.keys():
            self._unknown.update(line.entry.kind for line in lines if line.entry.kind not in KINDS)

    def report(self) -> Report:
        """The findings and notes, after the last record was taken; reads a log whose chain is broken once more."""
        findings, notes = verify_chain(self._chain, self._expected, self._locate)
        notes += [*self._unopened, *self._about_strangers()]
        if self._chain.newer_lines:
            notes.append(f"{_lines(self._chain.newer_lines)} written with {newer_schema(self._chain.newest_version)}")
        if not self._expected.heads:
            notes.append("without an exported head nobody can tell whether the end was cut off or rolled back")
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

    def _about_strangers(self) -> Iterator[str]:
        if strangers := self._expected.strangers:
            heads = counted(strangers, "exported head")
            yield f"not used, being of another cluster or node than the newest one: {heads}"
        owner = self._expected.owner
        if owner is not None and self._chain.runs and all(run.owner != owner for run in self._chain.runs):
            yield "no line is of cluster {} node {} as the newest exported head is: are these the right heads?".format(
                *owner
            )

    def _locate(self, hashes: AbstractSet[str]) -> dict[str, list[Spot]]:
        spots: defaultdict[str, list[Spot]] = defaultdict(list)
        for segment in self._segments:
            for raw in _whole_lines(segment):
                if raw.hash in hashes:
                    spots[raw.hash].append(Spot(Place(segment.number, raw.segment, raw.line), raw.entry.seq))
        return spots


def newer_schema(version: int) -> str:
    """The note about lines with a schema that is newer than ours."""
    return (
        f"schema {version}, this version knows {SCHEMA_VERSION}: what they say may mean something else; read the log"
        " with the version that wrote it"
    )


def _lines(number: int) -> str:
    return "1 line was" if number == 1 else f"{number} lines were"


def _whole_lines(segment: Segment) -> Iterator[RawLine]:
    with suppress(OSError):  # it could not be read before, and is reported
        for chunk in read_chunks(segment.path):
            if isinstance(chunk, list):
                yield from chunk


def verify(directory: Path, head: Head | None = None, *, heads: Sequence[ExportedHead] = ()) -> Report:
    """Read everything and judge it, with exported heads also whether it was cut off, rewritten or rolled back.

    :raises OSError: the directory cannot be listed.
    """
    reader = AuditReader(directory, head=head, heads=heads)
    for _ in reader.chunks():
        pass
    return reader.report()


def fold_directory(directory: Path) -> ClusterState:
    """The cluster as the newest record of the directory leaves it."""
    state = ClusterState()
    for envelope, record in AuditReader(directory):
        apply(state, envelope, record)
    return state
