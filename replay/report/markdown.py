"""The report for a ticket: short Markdown in which nothing of a log becomes markup, a link or a mention."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from controllerd.record.moments import STILL_LASTS, duration, moment
from replay.report.incidents import Incident, incidents
from replay.report.metadata import ReportMetadata, Row, Tables, severity_rank
from replay.report.page import checked
from replay.report.summary import UNNUMBERED, is_numbered, tiles, verdict
from replay.report.values import count, number, of, optional, sign, text

WORST: Final = 10
_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_MARKUP: Final = re.compile(r"([\\`*_\[\]|~#@!])")


def markdown(tables: Tables, meta: ReportMetadata) -> str:
    """Return the Markdown: summary, worst windows, incidents, violations, data quality."""
    parts = [
        *_head(tables, meta),
        *_windows(tables, meta),
        *_incidents(incidents(tables, meta)),
        *_violations(tables, meta),
        *_quality(tables, meta),
        "All moments are UTC. The page report.html beside this file has everything else.",
    ]
    return "\n\n".join(parts) + "\n"


def plain(value: str) -> str:
    """Escape a text of a log, in one line."""
    line = " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", line).replace("://", "\\://").replace("www.", "www\\.")


def name(value: str) -> str:
    """Return a topic or partition: as code if its characters are legal, else escaped."""
    return f"`{value}`" if _LEGAL_NAME.fullmatch(value) else plain(value)


def code(command: str) -> str:
    """Return a command as code in one line, fenced by more backticks than it has."""
    line = " ".join(command.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"`{line}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(tables: Tables, meta: ReportMetadata) -> list[str]:
    figures = [f"- {tile.label}: **{tile.value}** ({tile.note})" for tile in tiles(tables, meta)]
    read = f"{count(meta.records, 'record')} from {moment(meta.first_ms)} to {moment(meta.last_ms)}"
    made = f"Read by the {meta.engine} engine, version {meta.version}, {moment(meta.generated_ms)}: {read}."
    inputs = ", ".join(code(each) for each in meta.inputs) or "nothing"
    return ["# Replay report", f"**{verdict(tables, meta).sentence}**", "\n".join(figures), f"{made} Inputs: {inputs}."]


def _windows(tables: Tables, meta: ReportMetadata) -> list[str]:
    rows = of(tables, "windows")
    if not rows:
        return ["## Worst windows without a leader", "None: every partition had a leader all the time."]
    worst = sorted(rows, key=lambda row: (row.get("duration_us") is not None, -number(row, "duration_us")))[:WORST]
    listed = _table(("Partition", "From", "Lasted", "Begun by", "Ended by"), map(_window, worst))
    return ["## Worst windows without a leader", listed, *_more(len(rows) + meta.left_out.get("windows", 0), WORST)]


def _window(row: Row) -> tuple[str, ...]:
    lasted = duration(optional(row, "duration_us"))
    bound = sign(row.get("start_bound"), row.get("end_bound"))
    return (
        name(f"{text(row, 'topic')}-{number(row, 'partition')}"),
        moment(optional(row, "start_ms")),
        f"{bound} {lasted}".strip() if lasted != STILL_LASTS else lasted,
        plain(text(row, "cause")),
        plain(text(row, "ended_by")),
    )


def _incidents(found: Sequence[Incident]) -> list[str]:
    if not found:
        return ["## Incidents", "None."]
    return ["## Incidents", *(_incident(each) for each in found[:WORST]), *_more(len(found), WORST)]


def _incident(each: Incident) -> str:
    end = each.end or "the end of the log"
    lines = [
        f"### {each.number}. {each.headline} for {each.lasted}",
        "",
        f"From {each.start} to {end}. Cause: {plain(each.cause) or 'not known'}.",
        f"Longest {each.longest}, {each.total} in all, worst topic {name(each.worst_topic)}.",
        "",
        *(_link(link.offset, link.text, is_cause=link.is_cause) for link in each.links[:WORST]),
        *(["", f"Open this moment: {code(each.command)}"] if each.command else []),
    ]
    return "\n".join(lines)


def _link(offset: str, what: str, *, is_cause: bool) -> str:
    return f"- {offset}: **{plain(what)}** (cause)" if is_cause else f"- {offset}: {plain(what)}"


def _violations(tables: Tables, meta: ReportMetadata) -> list[str]:
    broken = [each for each in checked(tables, meta) if each.times]
    if not broken:
        held = f"{count(len(meta.invariants), 'invariant')} checked, all held." if meta.invariants else "Not checked."
        return ["## Invariants", held]
    broken.sort(key=lambda each: severity_rank(each.invariant.severity))
    rows = [
        (
            plain(each.invariant.id),
            plain(each.invariant.severity),
            plain(each.invariant.title),
            f"{each.times:,}",
            plain(each.evidence[0].text),
        )
        for each in broken
    ]
    return ["## Invariants", _table(("Id", "Severity", "Violated", "Times", "First evidence"), rows)]


def _quality(tables: Tables, meta: ReportMetadata) -> list[str]:
    rows = of(tables, "quality")
    if not rows:
        whole = "The log is complete: no gap, no duplicate, no damage." if is_numbered(meta) else UNNUMBERED
        return ["## Log quality", whole]
    lines = [
        (plain(text(row, "what")), f"{number(row, 'count'):,}", plain(text(row, "file")), plain(text(row, "detail")))
        for row in rows[:WORST]
    ]
    return ["## Log quality", _table(("What", "Count", "File", "Detail"), lines), *_more(len(rows), WORST)]


def _more(all_of_them: int, shown: int) -> list[str]:
    return [f"{all_of_them - shown:,} more are in report.json."] if all_of_them > shown else []
