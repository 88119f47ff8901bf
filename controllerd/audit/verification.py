"""Verifies the chain of a log. Where the chain is broken, it names the kind of harm and the numbers in doubt.

A run is a sequence of lines that link to one another (``chain``). The runs are put into the order that their links and
numbers give. Where two runs do not fit, the harm is known: a line whose content does not match its hash was edited, a
number that no run has is missing, and a run that was found elsewhere in the log was moved.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from controllerd.audit.branches import Locate, resolve_branches
from controllerd.audit.chain import Chain, Run
from controllerd.audit.findings import AuditFinding, Harm, LinePlace, found
from controllerd.audit.headcheck import ExpectedHeads, HeadCheck
from controllerd.audit.lines import GENESIS
from controllerd.audit.run_order import moved_runs, order_runs, own_runs, without_renumbered


def verify_chain(chain: Chain, expected: ExpectedHeads, locate: Locate) -> tuple[list[AuditFinding], list[str]]:
    """The findings in the order of the log, then those of the heads; and notes on the limits of the verification.

    ``locate`` is called only if the chain is broken.
    """
    runs, findings = own_runs(chain.runs, expected.owner)
    if not all(_belongs(after, before) and not after.unreadable for before, after in pairwise(runs)):
        runs, left_out = resolve_branches(runs, locate, expected.proven(chain.heads_found))
        runs, renumbered = without_renumbered(runs, expected.missing(chain.heads_found), expected.numbers)
        runs, doubled = order_runs(runs)
        findings += [*left_out, *renumbered, *doubled, *_Breaks(runs, expected).findings(), *_moved(runs)]
    findings += [*_beginning(runs, findings), *_trailing(chain, runs, expected)]
    findings = sorted((_as_damage(each, chain.damaged) for each in findings), key=_in_log)
    heads = HeadCheck(expected, chain, runs, findings)
    shown_by_heads = heads.findings()
    return findings + shown_by_heads, _notes(runs) + heads.notes


def _belongs(run: Run, before: Run) -> bool:
    return run.prev == before.hash and run.continues(before)


def _is_next(run: Run, before: Run | None) -> bool:
    return before is not None and before.boot == run.boot and run.continues(before)


def _in_log(finding: AuditFinding) -> tuple[str, int, str, int]:
    return finding.segment.rpartition("-")[2], finding.line, finding.boot, finding.first_seq


class _Breaks:
    """Compares neighbouring runs that should follow one another."""

    def __init__(self, runs: Sequence[Run], expected: ExpectedHeads) -> None:
        self._runs = runs
        self._expected = expected
        in_log = sorted(runs, key=lambda run: run.begin)
        self._next_in_log = {id(run): after for run, after in pairwise(in_log)}

    def findings(self) -> Iterator[AuditFinding]:
        """The findings within each run and between it and the next one, from the end of the log to its beginning.

        The hash of a line is in the next line, so only later lines prove an earlier one. If a run of one line was
        edited, its link to the line before is not trusted either, and is no evidence against that line.
        """
        is_proof = True
        for index in range(len(self._runs) - 1, -1, -1):
            run = self._runs[index]
            after = self._runs[index + 1] if index + 1 < len(self._runs) else None
            before = self._runs[index - 1] if index else None
            harms = list(self._harms(run, after if is_proof else None, before))
            if after is not None:
                harms += self._between(run, after)
            yield from harms
            is_proof = run.count > 1 or not any(each.harm is Harm.EDITED for each in harms)

    def _harms(self, run: Run, after: Run | None, before: Run | None) -> Iterator[AuditFinding]:
        """The findings about a run that the link of the next run shows.

        ``after`` is None if the next run is no evidence.
        """
        # A single line that does not link to the line before.
        is_unlinked_line = run.count == 1 and before is not None and run.prev != before.hash
        if is_unlinked_line and self._expected.hashes.get((run.boot, run.last), run.hash) != run.hash:
            # An exported head has another hash for this very line.
            yield _edited(run, run.first)
        elif after is None or after.prev == run.hash or not after.continues(run):
            # The next run confirms this one, or does not follow it and so shows nothing about it.
            return
        elif after.boot == run.boot:
            # The next run links to another line with the number of the last line here.
            yield _edited(run, run.first if is_unlinked_line and _is_next(run, before) else run.first_of_last_line)
        elif is_unlinked_line and _is_next(run, before) and after.prev not in self._expected.numbers:
            # Neither the link of this line nor that of the next boot fits: it replaced the last line of its boot.
            yield _edited(run, run.first)
        else:
            # The next boot links to another line: this boot went on, or its last line was edited.
            yield self._end_of_boot(run, after)

    def _end_of_boot(self, run: Run, after: Run) -> AuditFinding:
        """The finding about the end of a boot, where the next boot links to a line that the log does not contain."""
        boot, last = self._expected.numbers.get(after.prev, (run.boot, None))
        if boot != run.boot:
            return found(Harm.DELETED, (boot, 1, last), after.begin, "nothing of this boot is there")
        if last == run.last:
            return _edited(run, run.first_of_last_line)
        numbers = (boot, run.last + 1, last)
        if places := self._unreadable_between(run, after):
            return found(Harm.DAMAGED, numbers, places[0], _unreadable(places))
        if after.begin.number > run.end.number + 1:
            absent = f"segments {run.end.number + 1} to {after.begin.number - 1} are not there"
            return found(Harm.DELETED, numbers, run.end, f"{absent}, perhaps with whole boots")
        detail = f"the end of this boot is missing, or seq {run.last} was edited"
        return found(Harm.TRUNCATED, numbers, run.end, detail)

    def _between(self, run: Run, after: Run) -> Iterator[AuditFinding]:
        """The findings about missing numbers and unreadable places between two runs."""
        start = run.last + 1 if after.boot == run.boot else 1
        places = self._unreadable_between(run, after)
        if after.first > start:
            yield self._missing(run, after, (after.boot, start, after.first - 1), places)
        elif after.first < start:
            detail = "the numbers go back although each line is linked to the one before"
            yield found(Harm.FORKED, (after.boot, after.first, after.last), after.begin, detail)
        elif places and after.prev == run.hash:
            detail = f"nothing is lost, but there is {_unreadable(places)}"
            no_number = (after.boot, after.first, after.first - 1)
            yield found(Harm.DAMAGED, no_number, after.begin, detail)

    def _missing(self, run: Run, after: Run, numbers: tuple[str, int, int], places: list[LinePlace]) -> AuditFinding:
        if places:
            return found(Harm.DAMAGED, numbers, places[0], _unreadable(places))
        if after.prev == run.hash:
            detail = "these numbers are missing, although the next line links to the line before them"
            return found(Harm.DELETED, numbers, after.begin, detail)
        is_next_segment = after.begin.line == 1 and after.begin.number == run.end.number + 1
        if is_next_segment and after.boot == run.boot:
            return found(Harm.TRUNCATED, numbers, after.begin, f"the end of segment {run.end.segment} is missing")
        return found(Harm.DELETED, numbers, after.begin, "lines are missing before this one")

    def _unreadable_between(self, run: Run, after: Run) -> list[LinePlace]:
        """The unreadable places after ``run`` or before ``after``."""
        beside = self._next_in_log.get(id(run))
        return after.unreadable or (beside.unreadable if beside is not None else [])


def _edited(run: Run, first: int) -> AuditFinding:
    numbers = (run.boot, first, run.last)
    detail = "the content does not match the hash in the next line or in an exported head"
    return found(Harm.EDITED, numbers, run.end, detail)


def _unreadable(places: Sequence[LinePlace]) -> str:
    return "no readable line at " + ", ".join(f"{place.segment} line {place.line}" for place in places[:10])


def _moved(runs: Sequence[Run]) -> Iterator[AuditFinding]:
    """Findings about runs at a wrong place; consecutive runs are one finding."""
    moved = set(map(id, moved_runs(runs)))
    first: Run | None = None
    for before, run, after in zip_longest([None, *runs[:-1]], runs, runs[1:]):
        if run is None or id(run) not in moved:
            continue
        first = first or run
        if after is None or id(after) not in moved or after.boot != run.boot or not after.continues(run):
            where = f"after seq {before.last} of boot {before.boot}" if before is not None else "at the beginning"
            yield found(Harm.REORDERED, (run.boot, first.first, run.last), first.begin, f"these lines belong {where}")
            first = None


def _beginning(runs: Sequence[Run], known: Sequence[AuditFinding]) -> Iterator[AuditFinding]:
    """The finding about a missing beginning.

    Whole old segments may be missing, because of retention; a part of the first segment that remains may not.
    """
    if not runs or (runs[0].prev == GENESIS and runs[0].first == 1):
        return
    run = runs[0]
    if any(finding.harm is Harm.EDITED and finding.covers(run.boot, run.first) for finding in known):
        return
    if run.unreadable:
        before = run.unreadable[0].segment.rpartition("-")[0]
        numbers = (run.boot, 1, run.first - 1) if run.first > 1 else (before, 1, None)
        yield found(Harm.DAMAGED, numbers, run.begin, _unreadable(run.unreadable))
    elif run.begin.number == 1 or run.prev == GENESIS:
        detail = "the first segment does not begin with the first line"
        yield found(Harm.DELETED, (run.boot, 1, run.first - 1), run.begin, detail)


def _notes(runs: Sequence[Run]) -> list[str]:
    if not runs or runs[0].prev == GENESIS or runs[0].unreadable or runs[0].begin.number == 1:
        return []
    return [f"the log begins with seq {runs[0].first} of boot {runs[0].boot}: older segments are gone"]


def _trailing(chain: Chain, runs: Sequence[Run], expected: ExpectedHeads) -> Iterator[AuditFinding]:
    """The finding about unreadable places after the last line. Only an exported head shows how much is lost there."""
    if chain.trailing:
        boot, seq = (runs[-1].boot, runs[-1].last) if runs else ("", 0)
        last = max((number for of_boot, number in expected.hashes if of_boot == boot and number > seq), default=None)
        yield found(Harm.DAMAGED, (boot, seq + 1, last), chain.trailing[0], _unreadable(chain.trailing))


def _as_damage(finding: AuditFinding, damaged: set[str]) -> AuditFinding:
    """The finding as damage if the compression is damaged: another content is then no sign of editing."""
    if finding.harm is Harm.EDITED and finding.segment in damaged:
        return finding._replace(harm=Harm.DAMAGED, detail="the compression of this segment is damaged")
    return finding
