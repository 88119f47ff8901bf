"""Follows the hash chain over the lines of a directory, and keeps the runs of lines between which it does not hold.

Only the ends of a run are kept, so memory grows with what is broken and not with the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controllerd.audit.findings import Place
from controllerd.audit.lines import BadLine, Entry, Head, decode_record
from controllerd.record.records import SCHEMA_VERSION, GapRecord


class RawLine(NamedTuple):
    """A whole line: ``entry`` has the fields of its envelope and ``data``, the record undecoded."""

    segment: str
    line: int
    entry: Entry
    hash: str
    """The hash that the next line's ``prev`` should be."""


@dataclass(slots=True, eq=False)
class Run:
    """Neighbours in the log of one writer and boot whose numbers follow one another, each linked to the one before."""

    owner: tuple[str, int]
    """Cluster and node."""
    boot: str
    first: int
    """The first number, with those that a gap record at the beginning declares as lost."""
    last: int
    prev: str
    """The hash of the line before, as the first line has it."""
    hash: str
    """Of the last line."""
    begin: Place
    end: Place
    covered: int
    """The first number that the last line stands for: a gap record stands for those that it declares as lost."""
    count: int = 1
    """Lines."""
    unreadable: list[Place] = field(default_factory=list)
    """The places between the run before and this one that could not be read."""

    def continues(self, before: "Run | None") -> bool:
        """Whether the numbers say that it comes next after ``before`` (None: that it is the first of all)."""
        if before is None or before.boot != self.boot:
            return self.first == 1
        return self.first == before.last + 1

    def cut(self, seq: int, line_hash: str, place: Place) -> "tuple[Run, Run]":
        """Up to the line of this number, and from the next one on."""
        kept = seq - self.first + 1
        after = Place(place.number, place.segment, place.line + 1)
        upper = replace(self, last=seq, hash=line_hash, end=place, covered=seq, count=kept)
        return upper, replace(self, first=seq + 1, prev=line_hash, begin=after, count=self.count - kept, unreadable=[])


class Chain:
    """Give it everything that is read, in order, with ``see`` and ``unreadable``."""

    def __init__(self, heads: Sequence[Head] = ()) -> None:
        self.runs: list[Run] = []
        self.trailing: list[Place] = []
        """The places after the last line that could not be read."""
        self.damaged: set[str] = set()
        """Segments of which a block could not be read."""
        self.gaps: list[GapRecord] = []
        self.newest_version = SCHEMA_VERSION
        self.newer_lines = 0
        """Lines of a schema that is newer than ours."""
        self.since_ms: int | None = None
        """Wall clock of the first line."""
        self.heads_met: list[tuple[Head, Place]] = []
        """Lines that have the number of an expected head, with the hash that they have here."""
        self._expected = dict.fromkeys(sorted(head[:2] for head in heads))

    @property
    def lines(self) -> int:
        """How many were seen."""
        return sum(run.count for run in self.runs)

    @property
    def head(self) -> Head | None:
        """The newest line."""
        return Head(self.runs[-1].boot, self.runs[-1].last, self.runs[-1].hash) if self.runs else None

    def unreadable(self, place: Place, *, is_block: bool) -> None:
        """A line at this place, or a block of the file, could not be read. A torn tail is no such thing."""
        self.trailing.append(place)
        if is_block:
            self.damaged.add(place.segment)

    def see(self, lines: Sequence[RawLine], number: int) -> None:
        """The next lines, all of the segment with this number."""
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
                self._see_one(line, number)

    def _all_follow(self, lines: Sequence[RawLine]) -> bool:
        """Whether nothing happens in these lines: they go on from the last run, and none is a gap record.

        Column by column, which takes a fraction of the time of looking at each line.
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
        run.last, run.hash, run.end = last.entry.seq, last.hash, Place(number, last.segment, last.line)
        run.covered = run.last
        run.count += len(lines)
        for boot, seq in self._expected:
            if boot == run.boot and first <= seq <= run.last:
                self._meet(lines[seq - first], number)

    def _meet(self, line: RawLine, number: int) -> None:
        head = Head(line.entry.boot, line.entry.seq, line.hash)
        self.heads_met.append((head, Place(number, line.segment, line.line)))

    def _see_one(self, line: RawLine, number: int) -> None:
        entry = line.entry
        if (entry.boot, entry.seq) in self._expected:
            self._meet(line, number)
        new = self._run_of(line, number)
        before = self.runs[-1] if self.runs else None
        if before is not None and self._goes_on(before, new):
            before.last, before.hash, before.end, before.covered = new.last, new.hash, new.end, new.covered
            before.count += 1
        else:
            new.unreadable, self.trailing = self.trailing, []
            self.runs.append(new)

    def _run_of(self, line: RawLine, number: int) -> Run:
        """The line by itself."""
        entry, place = line.entry, Place(number, line.segment, line.line)
        gap = self._gap_of(entry)
        covered = gap.first_seq if gap is not None and 0 < gap.first_seq <= gap.last_seq == entry.seq - 1 else entry.seq
        owner = (entry.cluster, entry.node)
        return Run(owner, entry.boot, covered, entry.seq, entry.prev, line.hash, place, place, covered)

    def _goes_on(self, before: Run, new: Run) -> bool:
        is_near = not self.trailing and (before.owner, before.boot) == (new.owner, new.boot)
        return is_near and new.prev == before.hash and new.continues(before)

    def _gap_of(self, entry: Entry) -> GapRecord | None:
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
