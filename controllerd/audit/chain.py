"""Follows the hash chain over the lines of a directory, and splits them into runs where the chain is broken.

Only the ends of a run are kept, so memory grows with the number of breaks and not with the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controllerd.audit.findings import LinePlace
from controllerd.audit.lines import AuditEntry, BadLine, Head, decode_record
from controllerd.record.records import SCHEMA_VERSION, GapRecord


class RawLine(NamedTuple):
    """A complete line: ``entry`` has the fields of its envelope, and ``data``, its record not decoded."""

    segment: str
    line: int
    entry: AuditEntry
    hash: str
    """The hash of this line, which should be the ``prev`` of the next line."""


@dataclass(slots=True, eq=False)
class Run:
    """Consecutive lines of one cluster, node and boot, with consecutive numbers, each linked to the one before it."""

    owner: tuple[str, int]
    """Cluster and node."""
    boot: str
    first: int
    """The first number; it includes the numbers that a gap record at the beginning declares as lost."""
    last: int
    prev: str
    """``prev`` of the first line: the hash of the line before the run."""
    hash: str
    """The hash of the last line."""
    begin: LinePlace
    end: LinePlace
    first_of_last_line: int
    """The first number that the last line covers: a gap record covers the numbers that it declares as lost too."""
    count: int = 1
    """The number of lines."""
    unreadable: list[LinePlace] = field(default_factory=list)
    """The unreadable places between the previous run and this one."""

    def continues(self, before: "Run | None") -> bool:
        """Whether its numbers follow those of ``before``; with None, whether it is the first run of all."""
        if before is None or before.boot != self.boot:
            return self.first == 1
        return self.first == before.last + 1

    def cut(self, seq: int, line_hash: str, place: LinePlace) -> "tuple[Run, Run]":
        """Two runs: the lines up to the one with this number, and the lines after it."""
        kept = seq - self.first + 1
        after = LinePlace(place.number, place.segment, place.line + 1)
        upper = replace(self, last=seq, hash=line_hash, end=place, first_of_last_line=seq, count=kept)
        return upper, replace(self, first=seq + 1, prev=line_hash, begin=after, count=self.count - kept, unreadable=[])


class Chain:
    """The runs of a log so far. The reader passes every line to ``add`` and every unreadable place, in order."""

    def __init__(self, heads: Sequence[Head] = ()) -> None:
        self.runs: list[Run] = []
        self.trailing: list[LinePlace] = []
        """The unreadable places after the last line."""
        self.damaged: set[str] = set()
        """The segments with an unreadable block."""
        self.gaps: list[GapRecord] = []
        self.newest_version = SCHEMA_VERSION
        self.newer_lines = 0
        """The number of lines with a schema that this version does not know."""
        self.since_ms: int | None = None
        """Wall clock of the first line."""
        self.heads_found: list[tuple[Head, LinePlace]] = []
        """The lines with the number of an expected head, with their hash in this log."""
        self._expected = dict.fromkeys(sorted(head[:2] for head in heads))

    @property
    def lines(self) -> int:
        """The number of lines so far."""
        return sum(run.count for run in self.runs)

    @property
    def head(self) -> Head | None:
        """The newest line."""
        return Head(self.runs[-1].boot, self.runs[-1].last, self.runs[-1].hash) if self.runs else None

    def add_unreadable(self, place: LinePlace, *, is_block: bool) -> None:
        """Add a place with a line, or a block of the file, that could not be read. A torn tail does not count."""
        self.trailing.append(place)
        if is_block:
            self.damaged.add(place.segment)

    def add(self, lines: Sequence[RawLine], number: int) -> None:
        """Add the next lines, all of the segment with this number."""
        newest = max(line.entry.v for line in lines)
        if newest > SCHEMA_VERSION:
            self.newest_version = max(self.newest_version, newest)
            self.newer_lines += sum(line.entry.v > SCHEMA_VERSION for line in lines)
        if self.since_ms is None:
            self.since_ms = lines[0].entry.ts_ms
        if self._all_follow(lines):
            self._extend(lines, number)
        else:
            for line in lines:
                self._add_line(line, number)

    def _all_follow(self, lines: Sequence[RawLine]) -> bool:
        """Whether all lines continue the last run, and none is a gap record.

        Compares column by column, which takes a fraction of the time of comparing line by line.
        """
        if not self.runs or self.trailing:
            return False
        run, entries = self.runs[-1], [line.entry for line in lines]
        return (
            [entry.prev for entry in entries] == [run.hash, *(line.hash for line in lines[:-1])]
            and [entry.seq for entry in entries] == list(range(run.last + 1, run.last + 1 + len(lines)))
            and {entry.boot for entry in entries} == {run.boot}
            and {(entry.cluster, entry.node) for entry in entries} == {run.owner}
            and GapRecord.kind not in {entry.kind for entry in entries}
        )

    def _extend(self, lines: Sequence[RawLine], number: int) -> None:
        run, last = self.runs[-1], lines[-1]
        first = run.last + 1
        run.last, run.hash, run.end = last.entry.seq, last.hash, LinePlace(number, last.segment, last.line)
        run.first_of_last_line = run.last
        run.count += len(lines)
        for boot, seq in self._expected:
            if boot == run.boot and first <= seq <= run.last:
                self._note_expected_head(lines[seq - first], number)

    def _note_expected_head(self, line: RawLine, number: int) -> None:
        head = Head(line.entry.boot, line.entry.seq, line.hash)
        self.heads_found.append((head, LinePlace(number, line.segment, line.line)))

    def _add_line(self, line: RawLine, number: int) -> None:
        entry = line.entry
        if (entry.boot, entry.seq) in self._expected:
            self._note_expected_head(line, number)
        new = self._run_of_line(line, number)
        before = self.runs[-1] if self.runs else None
        if before is not None and self._continues(before, new):
            before.last, before.hash, before.end = new.last, new.hash, new.end
            before.first_of_last_line = new.first_of_last_line
            before.count += 1
        else:
            new.unreadable, self.trailing = self.trailing, []
            self.runs.append(new)

    def _run_of_line(self, line: RawLine, number: int) -> Run:
        """A run of this line alone."""
        entry, place = line.entry, LinePlace(number, line.segment, line.line)
        gap = self._note_gap(entry)
        first = gap.first_seq if gap is not None and 0 < gap.first_seq <= gap.last_seq == entry.seq - 1 else entry.seq
        owner = (entry.cluster, entry.node)
        return Run(owner, entry.boot, first, entry.seq, entry.prev, line.hash, place, place, first)

    def _continues(self, before: Run, new: Run) -> bool:
        is_near = not self.trailing and (before.owner, before.boot) == (new.owner, new.boot)
        return is_near and new.prev == before.hash and new.continues(before)

    def _note_gap(self, entry: AuditEntry) -> GapRecord | None:
        """Return the gap record of a line and add it to ``gaps``; None for every other line."""
        if entry.kind != GapRecord.kind:
            return None
        try:
            record = decode_record(entry.kind, entry.data)
        except BadLine:
            return None
        if not isinstance(record, GapRecord):
            return None
        self.gaps.append(record)
        return record
