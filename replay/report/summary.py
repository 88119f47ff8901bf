"""The summary of the tables: one sentence, and the figures at the top."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from controllerd.record.moments import duration
from replay.report.metadata import ReportMetadata, Row, Tables
from replay.report.values import count, joined, number, of, total

Level = Literal["good", "warn", "bad"]
HARMLESS: Final = frozenset({"clock skew", "duplicate", "newer schema", "torn tail", "unknown kind", "unknown line"})
"""Findings about a log that do not make it incomplete. A torn tail was never a whole record."""

_FINDINGS: Final = {
    "gap": ("record was dropped", "records were dropped"),
    "missing": ("record is missing", "records are missing"),
    "duplicate": ("duplicate", "duplicates"),
    "chain": ("break of the hash chain", "breaks of the hash chain"),
    "clock skew": ("clock may be off", "clocks may be off"),
    "damaged": ("line is damaged", "lines are damaged"),
    "torn tail": ("torn tail", "torn tails"),
    "newer schema": ("record of a newer schema", "records of a newer schema"),
    "unknown kind": ("record of an unknown kind", "records of unknown kinds"),
    "unknown line": ("unknown line", "unknown lines"),
}

UNNUMBERED: Final = "Nothing is damaged. Kafka's own logs number no lines: a file that is not there is not missed."


class ReportTile(NamedTuple):
    """One figure; ``anchor`` is the section that says more."""

    label: str
    value: str
    note: str
    level: Level
    anchor: str


class Leaderless(NamedTuple):
    """Time without leader over all clusters; durations in microseconds."""

    partitions: int
    windows: int
    longest_us: int
    lasts_until_end: bool
    """Whether the longest window was still open at the end of the log, so that it may be longer."""
    total_us: int
    any_us: int
    open: int
    most_at_once: int


class ReportVerdict(NamedTuple):
    """The report in one sentence, with its level."""

    sentence: str
    level: Level


def leaderless(tables: Tables, meta: ReportMetadata) -> Leaderless:
    """Return the figures of ``cluster_windows``, in which an open window counts up to the last record."""
    rows = of(tables, "cluster_windows")
    longest = _most(rows, "longest_us")
    lasting = max((_so_far(row, meta) for row in of(tables, "windows") if row.get("end_ms") is None), default=-1)
    return Leaderless(
        partitions=total(rows, "partitions"),
        windows=total(rows, "windows"),
        longest_us=longest,
        lasts_until_end=lasting >= longest,
        total_us=total(rows, "total_us"),
        any_us=_most(rows, "any_us"),
        open=total(rows, "open"),
        most_at_once=_most(rows, "most_at_once"),
    )


def _most(rows: Iterable[Row], key: str) -> int:
    return max((number(row, key) for row in rows), default=0)


def _so_far(window: Row, meta: ReportMetadata) -> int:
    """Return the duration of an open window up to the end of the log, in microseconds."""
    return max(0, (meta.last_ms or 0) - number(window, "start_ms")) * 1000


def verdict(tables: Tables, meta: ReportMetadata) -> ReportVerdict:
    """Return the report in one sentence."""
    if not meta.records:
        return ReportVerdict("There is nothing to report: the logs have no record.", "warn")
    lost = leaderless(tables, meta)
    text = "; ".join([_of_leaders(lost, tables), _of_invariants(tables, meta), _of_log(tables, meta)])
    return ReportVerdict(f"{text[0].upper()}{text[1:]}.", _level(lost, tables))


def _of_leaders(lost: Leaderless, tables: Tables) -> str:
    if not lost.windows:
        if "terms" in tables and not tables["terms"]:
            return "no controller of these logs was in its term, so nothing is known of leaders"
        return "no partition was without a leader"
    were = "was" if lost.partitions == 1 else "were"
    longest = duration(lost.longest_us)
    text = f"{count(lost.partitions, 'partition')} {were} without a leader for up to {longest}"
    if lost.open:
        has = "has" if lost.open == 1 else "have"
        text += f", {lost.open:,} of them still {has} none when the log ends"
    return text


def _of_invariants(tables: Tables, meta: ReportMetadata) -> str:
    violations = of(tables, "violations")
    if violations:
        ids = {row.get("id") for row in violations}
        return f"{count(len(ids), 'invariant')} violated ({count(total(violations, 'times'), 'time')})"
    return "no invariant violated" if meta.invariants else "invariants were not checked"


def _of_log(tables: Tables, meta: ReportMetadata) -> str:
    found: dict[str, int] = {}
    for row in of(tables, "quality"):
        what = str(row.get("what"))
        found[what] = found.get(what, 0) + max(1, number(row, "count"))
    flaws = [_finding(what, times) for what, times in sorted(found.items()) if what not in HARMLESS]
    oddities = [_finding(what, times) for what, times in sorted(found.items()) if what in HARMLESS]
    if flaws:
        return f"the log is not complete: {joined(flaws)}"
    whole = "the log is complete" if is_numbered(meta) else "nothing is damaged, and missing lines cannot be detected"
    return f"{whole} ({joined(oddities)})" if oddities else whole


def is_numbered(meta: ReportMetadata) -> bool:
    """Return whether lines are numbered, so that a missing one shows; lines of Kafka's own logs are not."""
    return bool(meta.invariants)


def _finding(what: str, times: int) -> str:
    one, many = _FINDINGS.get(what, (what, what))
    return count(times, one, many)


def flawed(tables: Tables) -> bool:
    """Return whether the log lacks something."""
    return any(row.get("what") not in HARMLESS for row in of(tables, "quality"))


def _level(lost: Leaderless, tables: Tables) -> Level:
    if of(tables, "violations") or lost.open:
        return "bad"
    return "warn" if lost.windows or flawed(tables) else "good"


def tiles(tables: Tables, meta: ReportMetadata) -> list[ReportTile]:
    """Return the figures at the top of the report."""
    return [*_leader_tiles(tables, meta), *_other_tiles(tables, meta)]


def _leader_tiles(tables: Tables, meta: ReportMetadata) -> list[ReportTile]:
    lost = leaderless(tables, meta)
    level: Level = "bad" if lost.open else "warn" if lost.windows else "good"
    incidents = len(of(tables, "incidents"))
    open_note = f"{lost.open:,} still open" if lost.open else "all have a leader again" if lost.windows else "none"
    at_once = f"at most {lost.most_at_once:,} at once"
    longest = "still lasting" if lost.lasts_until_end else "one partition"
    return [
        ReportTile("Partitions without a leader", f"{lost.partitions:,}", open_note, level, "windows"),
        ReportTile("Longest", duration(lost.longest_us) if lost.windows else "none", longest, level, "windows"),
        ReportTile("At least one leaderless", duration(lost.any_us), at_once, level, "timeline"),
        ReportTile("Lost in all", duration(lost.total_us), "summed over partitions", level, "heat"),
        ReportTile("Incidents", f"{incidents:,}", count(lost.windows, "window"), level, "incidents"),
    ]


def _other_tiles(tables: Tables, meta: ReportMetadata) -> list[ReportTile]:
    violations, terms = of(tables, "violations"), of(tables, "terms")
    bad = len({row.get("id") for row in violations})
    nodes = len({row.get("node") for row in terms})
    checked = f"of {len(meta.invariants)} checked" if meta.invariants else "not checked"
    findings = len(of(tables, "quality"))
    complete = "not complete" if flawed(tables) else "complete" if is_numbered(meta) else "undamaged"
    found = count(findings, "finding") if findings else "no gap, no damage" if is_numbered(meta) else "lines unnumbered"
    held: Level = "bad" if bad else "good" if meta.invariants else "warn"
    return [
        ReportTile("Controller terms", f"{len(terms):,}", f"of {count(nodes, 'node')}", "good", "timeline"),
        ReportTile("Invariants violated", f"{bad:,}", checked, held, "invariants"),
        ReportTile("The log", complete, found, "warn" if flawed(tables) else "good", "quality"),
    ]
