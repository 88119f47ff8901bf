"""Reads a directory of the audit log back: tolerant of damage, exact about what is lost, judging the hash chain."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import zstandard

from controllerd.audit.chain import Chain, Finding, Place
from controllerd.audit.lines import BadLine, Head, decode_line, decode_record, digest
from controllerd.audit.segments import Segment, list_segments, read_lines
from replay.envelope import Envelope, UnknownRecord
from replay.fold import ClusterState, apply
from replay.records import SCHEMA_VERSION, GapRecord, Record

EXIT_CLEAN: Final = 0
EXIT_DAMAGED: Final = 65
"""``EX_DATAERR``: something could not be read, or was tampered with."""


class TornTail(NamedTuple):
    """Bytes after the last newline of a segment: the line that was being written when the process or host died."""

    segment: str
    line: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a complete reading of a directory found."""

    lines: int
    head: Head | None
    """The newest line; to be kept elsewhere."""
    findings: tuple[Finding, ...]
    gaps: tuple[GapRecord, ...]
    """Losses that the writer itself declared."""
    torn_tails: tuple[TornTail, ...]
    unknown_kinds: dict[str, int]
    notes: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is damaged; torn tails, declared gaps and unknown kinds are no damage."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """What a command that read this directory exits with."""
        return EXIT_CLEAN if self.is_intact else EXIT_DAMAGED


class AuditReader:
    """Iterates over ``(envelope, record)`` of one directory in the order of the log; ``report`` when it is through.

    Kinds and contents that this version does not know are counted and left out, or given as ``UnknownRecord`` with
    ``keep_unknown``.
    :raises OSError: the directory cannot be listed.
    """

    def __init__(self, directory: Path, *, head: Head | None = None, keep_unknown: bool = False) -> None:
        self._segments = list_segments(directory)
        self._keep_unknown = keep_unknown
        self._chain = Chain(head)
        self._gaps: list[GapRecord] = []
        self._torn: list[TornTail] = []
        self._unknown: Counter[str] = Counter()
        self._without_head = head is None
        self._newest_version = SCHEMA_VERSION

    def __iter__(self) -> Iterator[tuple[Envelope, Record]]:
        for envelope, data in self.lines():
            try:
                record = decode_record(envelope.kind, data)
            except BadLine:
                record = UnknownRecord(envelope.kind)
            if not isinstance(record, UnknownRecord):
                yield envelope, record
                continue
            self._unknown[envelope.kind] += 1
            if self._keep_unknown:
                yield envelope, record

    def lines(self) -> Iterator[tuple[Envelope, msgspec.Raw]]:
        """The lines with their records undecoded, which is all that judging the chain needs."""
        for segment in self._segments:
            yield from self._read(segment)

    def report(self) -> Report:
        """What was found. Meaningful after the last record was taken."""
        findings = tuple(self._chain.findings())
        notes = list(self._chain.notes)
        if self._newest_version > SCHEMA_VERSION:
            notes.append(f"written with schema {self._newest_version}, this version knows {SCHEMA_VERSION}")
        if self._without_head:
            notes.append("without an exported head nobody can tell whether the end was cut off or rolled back")
        return Report(
            self._chain.lines,
            self._chain.head,
            findings,
            tuple(self._gaps),
            tuple(self._torn),
            dict(self._unknown),
            tuple(notes),
        )

    def _read(self, segment: Segment) -> Iterator[tuple[Envelope, msgspec.Raw]]:
        number = 0
        try:
            for number, line in enumerate(read_lines(segment), 1):
                place = Place(segment.path.name, segment.number, number)
                if not line.endswith(b"\n"):
                    self._torn.append(TornTail(segment.path.name, number, len(line)))
                elif (entry := self._decode(line[:-1], place)) is not None:
                    yield entry
        except (OSError, zstandard.ZstdError):
            self._chain.unreadable(Place(segment.path.name, segment.number, number + 1))

    def _decode(self, line: bytes, place: Place) -> tuple[Envelope, msgspec.Raw] | None:
        try:
            envelope, data = decode_line(line)
            record = decode_record(GapRecord.kind, data) if envelope.kind == GapRecord.kind else None
        except BadLine:
            self._chain.unreadable(place)
            return None
        gap = record if isinstance(record, GapRecord) else None
        if gap is not None:
            self._gaps.append(gap)
        self._newest_version = max(self._newest_version, envelope.v)
        self._chain.see(envelope, digest(line), place, gap)
        return envelope, data


def verify(directory: Path, head: Head | None = None) -> Report:
    """Read everything and judge it, with an exported ``head`` also whether it was cut off, rewritten or rolled back."""
    reader = AuditReader(directory, head=head)
    for _ in reader.lines():
        pass
    return reader.report()


def fold_directory(directory: Path) -> ClusterState:
    """The cluster as the newest record of the directory leaves it."""
    state = ClusterState()
    for envelope, record in AuditReader(directory):
        apply(state, envelope, record)
    return state
