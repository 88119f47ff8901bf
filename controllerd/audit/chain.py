"""Follows the hash chain over the lines of a directory and says what was done to it where it does not hold.

Only the lines at both sides of a break are kept. That is enough: the line that belongs before a break is either beside
another break, or the last one, or lost.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from controllerd.audit.lines import GENESIS, Head
from replay.envelope import Envelope
from replay.records import GapRecord


class Harm(Enum):
    """What was done to the log."""

    DAMAGED = "damaged"
    """Bytes that are no line of the log stand where lines should be."""
    EDITED = "edited"
    """A line is whole and its successor was written after another content."""
    DELETED = "deleted"
    """Lines are missing between others."""
    TRUNCATED = "truncated"
    """Lines are missing at the end of a segment, of a boot, or of the log."""
    REORDERED = "reordered"
    """A line is whole and stands in the wrong place."""
    FORKED = "forked"
    """A number occurs twice, or another history than the exported head's."""
    ROLLED_BACK = "rolled back"
    """The log knows nothing of the boot that the exported head is of."""
    FOREIGN = "foreign"
    """Lines of another cluster or node."""


class Finding(NamedTuple):
    """One harm with the numbers that are lost or doubtful; ``last_seq`` None: to the end of that boot."""

    harm: Harm
    boot: str
    first_seq: int
    last_seq: int | None
    segment: str
    line: int
    detail: str

    def __str__(self) -> str:
        last = "?" if self.last_seq is None else self.last_seq
        where = f"{self.segment} line {self.line}"
        return f"{self.harm.value}: seq {self.first_seq}..{last} of boot {self.boot} at {where}: {self.detail}"


class Place(NamedTuple):
    """Where a line stands."""

    segment: str
    number: int
    line: int


class _Mark(NamedTuple):
    """What must be known of a line beside a break."""

    boot: str
    seq: int
    hash: str
    place: Place


@dataclass(slots=True)
class _Break:
    """Two neighbours that do not belong together, and what unreadable stands between them."""

    before: _Mark | None
    mark: _Mark
    prev: str
    highest: int
    """The highest number of the mark's boot before it."""
    seen_before: bool
    unreadable: list[Place] = field(default_factory=list)


class Chain:
    """Give it every line in order with ``see`` and ``unreadable``, then ask for ``findings``."""

    def __init__(self, head: Head | None = None) -> None:
        self.lines = 0
        self.notes: list[str] = []
        self._expected = head
        self._head_found: str | None = None
        self._owner: tuple[str, int] | None = None
        self._foreign: list[Finding] = []
        self._last: _Mark | None = None
        self._runs: defaultdict[str, list[list[int]]] = defaultdict(list)
        self._breaks: list[_Break] = []
        self._unreadable: list[Place] = []

    @property
    def head(self) -> Head | None:
        """The newest line; to be kept elsewhere."""
        last = self._last
        return Head(last.boot, last.seq, last.hash) if last is not None else None

    def see(self, envelope: Envelope, line_hash: str, place: Place, gap: GapRecord | None = None) -> None:
        """The next line; ``gap`` is its record if it is a gap record."""
        self.lines += 1
        self._check_owner(envelope, place)
        mark = _Mark(envelope.boot, envelope.seq, line_hash, place)
        if self._expected is not None and mark[:2] == self._expected[:2]:
            self._head_found = line_hash
        if self._follows(envelope, gap):
            self._extend(mark, gap)
        else:
            self._break(mark, envelope.prev)
        self._last = mark
        self._unreadable = []

    def unreadable(self, place: Place) -> None:
        """A whole line at this place, or the rest of the segment, could not be read. A torn tail is no such thing."""
        self._unreadable.append(place)

    def _check_owner(self, envelope: Envelope, place: Place) -> None:
        owner = (envelope.cluster, envelope.node)
        self._owner = self._owner or owner
        if owner != self._owner:
            detail = f"cluster {envelope.cluster} node {envelope.node} in the log of {self._owner[0]} {self._owner[1]}"
            seq = envelope.seq
            finding = Finding(Harm.FOREIGN, envelope.boot, seq, seq, place.segment, place.line, detail)
            self._foreign.append(finding)

    def _follows(self, envelope: Envelope, gap: GapRecord | None) -> bool:
        last = self._last
        if self._unreadable or envelope.prev != (last.hash if last is not None else GENESIS):
            return False
        expected = last.seq + 1 if last is not None and last.boot == envelope.boot else 1
        if gap is not None and gap.first_seq == expected and gap.last_seq == envelope.seq - 1:
            return True
        return envelope.seq == expected

    def _extend(self, mark: _Mark, gap: GapRecord | None) -> None:
        runs = self._runs[mark.boot]
        if self._last is None or self._last.boot != mark.boot or not runs:
            runs.append([gap.first_seq if gap is not None else mark.seq, mark.seq])
        else:
            runs[-1][1] = mark.seq

    def _break(self, mark: _Mark, prev: str) -> None:
        runs = self._runs[mark.boot]
        highest = max((run[1] for run in runs), default=0)
        broken = _Break(self._last, mark, prev, highest, self._was_seen(mark.boot, mark.seq), self._unreadable)
        self._breaks.append(broken)
        runs.append([mark.seq, mark.seq])

    def _was_seen(self, boot: str, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self._runs[boot])

    # -- judging -----------------------------------------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        """What is wrong, in the order of the log; ``notes`` is what cannot be told. Only after the last line."""
        self.notes.clear()
        marks = [broken.mark for broken in self._breaks]
        marks += [broken.before for broken in self._breaks if broken.before is not None]
        marks += [self._last] if self._last is not None else []
        hashes = {(mark.boot, mark.seq): mark.hash for mark in marks}
        found = [finding for broken in self._breaks if (finding := self._judge(broken, hashes)) is not None]
        return self._foreign + found + self._judge_end() + self._judge_head()

    def _judge(self, broken: _Break, hashes: dict[tuple[str, int], str]) -> Finding | None:
        mark = broken.mark
        if broken.seen_before:
            return _finding(Harm.FORKED, mark, mark.seq, mark.seq, "this number was there before")
        if mark.seq == 1:
            return self._judge_boot(broken, hashes)
        if self._was_seen(mark.boot, mark.seq - 1):
            return _judge_link(broken, hashes.get((mark.boot, mark.seq - 1)))
        return self._judge_loss(broken)

    def _judge_boot(self, broken: _Break, hashes: dict[tuple[str, int], str]) -> Finding | None:
        """The first line of a boot is not linked to the line before it."""
        before, mark = broken.before, broken.mark
        if before is None:
            return self._judge_beginning(mark)
        if broken.prev == before.hash:
            return _finding(Harm.DAMAGED, before, before.seq + 1, None, _unreadable_at(broken.unreadable))
        if broken.prev == GENESIS or broken.prev in hashes.values():
            return _finding(Harm.REORDERED, mark, 1, 1, "what this boot goes on from does not stand before it")
        detail = "the end of this boot is missing, or its last line was edited"
        return _finding(Harm.TRUNCATED, before, before.seq + 1, None, detail)

    def _judge_loss(self, broken: _Break) -> Finding | None:
        """The line before is nowhere."""
        before, mark = broken.before, broken.mark
        seqs = [run[1] for run in self._runs[mark.boot] if run[1] < mark.seq]
        first, last = max(seqs, default=0) + 1, mark.seq - 1
        if broken.unreadable:
            return _finding(Harm.DAMAGED, mark, first, last, _unreadable_at(broken.unreadable))
        if before is None:
            return self._judge_beginning(mark)
        if mark.place.line == 1 and mark.place.number == before.place.number + 1 and before.boot == mark.boot:
            return _finding(Harm.TRUNCATED, mark, first, last, f"the end of segment {before.place.segment} is missing")
        return _finding(Harm.DELETED, mark, first, last, "lines are missing before this one")

    def _judge_beginning(self, mark: _Mark) -> Finding | None:
        """The log begins with a link to an earlier line. Old segments may be removed, but not a part of the first."""
        if mark.place.number == 1:
            return _finding(Harm.DELETED, mark, 1, mark.seq - 1, "the first segment does not begin with the first line")
        self.notes.append(f"the log begins with seq {mark.seq} of boot {mark.boot}: older segments are gone")
        return None

    def _judge_end(self) -> list[Finding]:
        if not self._unreadable:
            return []
        first = self._unreadable[0]
        boot, seq = (self._last.boot, self._last.seq + 1) if self._last is not None else ("", 1)
        return [Finding(Harm.DAMAGED, boot, seq, None, first.segment, first.line, _unreadable_at(self._unreadable))]

    def _judge_head(self) -> list[Finding]:
        expected = self._expected
        if expected is None or self._head_found == expected.hash:
            return []
        boot, seq, _ = expected
        if self._head_found is not None:
            return [Finding(Harm.FORKED, boot, seq, seq, "", 0, "this line is not the one that was exported as head")]
        highest = max((run[1] for run in self._runs[boot]), default=0)
        if highest == 0:
            return [Finding(Harm.ROLLED_BACK, boot, 1, seq, "", 0, "nothing of the exported head's boot is there")]
        detail = "the log ends before the exported head"
        return [Finding(Harm.TRUNCATED, boot, highest + 1, seq, "", 0, detail)] if highest < seq else []


def _judge_link(broken: _Break, predecessor: str | None) -> Finding | None:
    """The line before is there, somewhere."""
    before, mark = broken.before, broken.mark
    if predecessor != broken.prev:
        return _finding(Harm.EDITED, mark, mark.seq - 1, mark.seq - 1, "this line's link shows another content")
    if before is not None and (before.boot, before.seq) == (mark.boot, mark.seq - 1):
        added = f"nothing is lost, but there is {_unreadable_at(broken.unreadable)}"
        return _finding(Harm.DAMAGED, mark, mark.seq, mark.seq - 1, added)
    if mark.seq == broken.highest + 1:
        return None  # in its place after others that are not
    return _finding(Harm.REORDERED, mark, mark.seq, mark.seq, "this line stands in the wrong place")


def _unreadable_at(places: list[Place]) -> str:
    return "no readable line at " + ", ".join(f"{place.segment} line {place.line}" for place in places[:10])


def _finding(harm: Harm, mark: _Mark, first: int, last: int | None, detail: str) -> Finding:
    return Finding(harm, mark.boot, first, last, mark.place.segment, mark.place.line, detail)
