"""Compares exported heads with a log. Each must be in the log; the newest one shows whether the log was rolled back."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from controllerd.audit.chain import Chain, Run
from controllerd.audit.findings import AuditFinding, Harm, LinePlace, found
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import GENESIS, Head

_EXPLAINS: Final = frozenset({Harm.DAMAGED, Harm.EDITED, Harm.DELETED, Harm.TRUNCATED, Harm.FORKED})
"""Kinds of harm that already explain why a line of the range differs from an exported head."""


_GONE: Final = "the segments with the exported head are gone, and only a newer one can vouch for what is left"


class ExpectedHeads:
    """The exported heads of a log, the newest last."""

    def __init__(self, heads: Sequence[Head | ExportedHead]) -> None:
        exported = [head for head in heads if isinstance(head, ExportedHead)]
        self.owner = (exported[-1].cluster, exported[-1].node) if exported else None
        self.exported_ms = exported[-1].exported_ms if exported else 0
        own = [head for head in heads if isinstance(head, Head) or (head.cluster, head.node) == self.owner]
        self.foreign_heads = len(heads) - len(own)
        """The number of heads of another cluster or node than the newest one. They are not compared with this log."""
        plain = (head if isinstance(head, Head) else head.head for head in reversed(own))
        self.heads = list(dict.fromkeys(plain))[::-1]  # a head that was exported twice counts at its last place
        self.hashes = {head[:2]: head.hash for head in self.heads}
        self.numbers = {head.hash: head[:2] for head in self.heads}

    def proven(self, found_heads: Iterable[tuple[Head, LinePlace]]) -> LinePlace | None:
        """The place of the newest head that the log contains; None if it contains none."""
        places = {head.hash: place for head, place in found_heads}
        return next((places[head.hash] for head in reversed(self.heads) if head.hash in places), None)

    def missing(self, found_heads: Iterable[tuple[Head, LinePlace]]) -> Head | None:
        """The newest head if the log does not contain it, else None."""
        newest = self.heads[-1] if self.heads else None
        return newest if newest not in {head for head, _ in found_heads} else None


class HeadCheck:
    """Compares exported heads with the runs that belong to the log, in their order."""

    def __init__(
        self, expected: ExpectedHeads, chain: Chain, runs: Sequence[Run], known: Sequence[AuditFinding]
    ) -> None:
        self.notes: list[str] = []
        self._expected = expected
        self._runs = runs
        self._older = 0
        self._known = [finding for finding in known if finding.harm in _EXPLAINS]
        self._since_ms = chain.since_ms or 0
        self._is_complete = bool(runs) and runs[0].prev == GENESIS
        self._found = {head for head, place in chain.heads_found if any(run.begin <= place <= run.end for run in runs)}
        self._found_numbers = {head[:2] for head in self._found}

    def findings(self) -> list[AuditFinding]:
        """The findings that only the heads show. Afterwards ``notes`` has the limits of this comparison."""
        settled: Head | None = None
        findings: list[AuditFinding] = []
        for index, head in enumerate(self._expected.heads):
            if head in self._found or any(each.covers(head.boot, head.seq) for each in self._known):
                settled = head
                continue
            judged = self._judge(head, settled, self._expected.heads[index + 1 :])
            findings += judged
            # A head whose line is absent settles nothing: no finding names the lines between it and the head before.
            if any(each.harm is Harm.FORKED for each in judged):
                settled = head
        if self._older:
            self.notes.append(f"{self._older} of the exported heads are older than what is left of the log")
        return list(_merged(findings))

    def _judge(self, head: Head, since: Head | None, newer: Sequence[Head]) -> list[AuditFinding]:
        own = [run for run in self._runs if run.boot == head.boot]
        is_older = not self._is_complete and any(each in self._found for each in newer)
        is_before = not own or head.seq < own[0].first
        if is_before and is_older:
            self._older += 1
            return []
        if not own:
            return [self._absent_boot(head)]
        if head.seq > own[-1].last:
            return [self._cut(head, own[-1])]
        if is_before and own[0] is self._runs[0] and not self._is_complete:
            return [found(Harm.DELETED, (head.boot, 1, own[0].first - 1), None, _GONE)]
        own_range = (head.boot, own[0].first, head.seq)
        return list(self._rewritten(head, since)) or [found(Harm.FORKED, own_range, None, "another history")]

    def _absent_boot(self, head: Head) -> AuditFinding:
        numbers = (head.boot, 1, head.seq)
        if self._runs and self._since_ms > self._expected.exported_ms > 0:
            return found(Harm.DELETED, numbers, None, _GONE)
        return found(Harm.ROLLED_BACK, numbers, None, "nothing of the exported head's boot is there")

    def _cut(self, head: Head, end: Run) -> AuditFinding:
        numbers = (head.boot, end.last + 1, head.seq)
        newest = self._expected.heads[-1]
        if end is not self._runs[-1]:
            return found(Harm.ROLLED_BACK, numbers, None, f"later boots go on from seq {end.last}")
        if head.boot != newest.boot and not any(run.boot == newest.boot for run in self._runs):
            return found(Harm.ROLLED_BACK, numbers, None, "the log ends before an older head, and newer boots are gone")
        return found(Harm.TRUNCATED, numbers, None, "the log ends before the exported head")

    def _rewritten(self, head: Head, since: Head | None) -> Iterator[AuditFinding]:
        """Findings about the lines since the last settled head (``since``), by boots: any may have been rewritten.

        The lines up to a settled head are proven by it, or another finding names them.
        """
        if head[:2] in self._found_numbers:
            detail = "the history differs from the one that the exported head belongs to"
        else:
            detail = "the log says that the exported head's line was never written"
        ranges = [(boot, min(run.first for run in runs), runs[-1].last) for boot, runs in self._by_boot()]
        boots = [boot for boot, _, _ in ranges]
        start = boots.index(since.boot) if since is not None and since.boot in boots else 0
        for boot, lowest, highest in ranges[start : boots.index(head.boot) + 1]:
            first = since.seq + 1 if since is not None and since.boot == boot else lowest
            last = head.seq if boot == head.boot else highest
            if first <= last:
                yield found(Harm.FORKED, (boot, first, last), None, detail)

    def _by_boot(self) -> Iterator[tuple[str, list[Run]]]:
        for boot, runs in groupby(self._runs, key=lambda run: run.boot):
            yield boot, list(runs)


def _merged(findings: Iterable[AuditFinding]) -> Iterator[AuditFinding]:
    """The findings, where each one that continues or overlaps the previous one is joined with it."""
    last: AuditFinding | None = None
    for finding in findings:
        if last is not None and _is_continued(last, finding):
            last = last._replace(last_seq=finding.last_seq)
            continue
        if last is not None:
            yield last
        last = finding
    if last is not None:
        yield last


def _is_continued(last: AuditFinding, finding: AuditFinding) -> bool:
    same = (last.harm, last.boot, last.detail) == (finding.harm, finding.boot, finding.detail)
    if not same or last.last_seq is None or finding.last_seq is None:
        return False
    return last.first_seq <= finding.first_seq <= last.last_seq + 1 and last.last_seq <= finding.last_seq
