"""The report as one self-contained HTML page: its own style and script, no network, everything escaped."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from controllerd.record.moments import moment
from replay.report.charts.axis import Axis
from replay.report.charts.heat import Heat, heat
from replay.report.charts.lanes import Bar, Lane, mark_lanes, term_bars
from replay.report.charts.load import LoadChart, load
from replay.report.incidents import incidents
from replay.report.metadata import Invariant, ReportMetadata, Row, Tables, severity_rank
from replay.report.summary import tiles, verdict
from replay.report.values import at_command, by_cluster, clusters, count, number, of, optional, text, total, unbroken
from replay.report.views import VIEWS, data

MOST_EVIDENCE: Final = 20
_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http%3A//www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%231f5fbf'/%3E"
    "%3Cpath d='M3 11h3V6h3v5h4' fill='none' stroke='%23fff' stroke-width='2'/%3E%3C/svg%3E"
)


class Timeline(NamedTuple):
    """The lanes of one cluster over the whole time of the logs."""

    cluster: str
    axis: Axis
    load: LoadChart
    terms: list[Bar]
    lanes: list[Lane]


class ReportEvidence(NamedTuple):
    """One violation of an invariant; ``command`` opens its moment, empty where it has none."""

    at: str
    origin: str
    text: str
    command: str


class Checked(NamedTuple):
    """An invariant with its violations."""

    invariant: Invariant
    times: int
    evidence: list[ReportEvidence]


class HeatMap(NamedTuple):
    """The heat map of one cluster."""

    cluster: str
    heat: Heat


def page(tables: Tables, meta: ReportMetadata) -> str:
    """Return the HTML document."""
    style, script = _source("report.css"), _source("report.js")
    ids = clusters(tables)
    shown = {view.name: data(view, tables, meta, many_clusters=len(ids) > 1) for view in VIEWS}
    context: Mapping[str, object] = {
        "meta": meta,
        "clusters": ids,
        "verdict": verdict(tables, meta),
        "tiles": tiles(tables, meta),
        "timelines": _timelines(tables, meta, ids),
        "incidents": incidents(tables, meta),
        "heat_maps": _heat_maps(tables, ids),
        "checked": checked(tables, meta),
        "data": shown,
        "style": Markup(style),  # noqa: S704  (ours, not the log's)
        "script": Markup(script),  # noqa: S704
        "policy": _policy(style, script),
        "icon": _ICON,
    }
    return _environment().get_template("report.html.j2").render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("replay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"moment": moment, "embedded": embedded, "number": "{:,}".format, "unbroken": unbroken}
    environment.globals["count"] = count
    return environment


def _source(name: str) -> str:
    """Return a file of the templates unchanged."""
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def embedded(value: object) -> Markup:
    """Encode JSON so that no content can end the script element around it."""
    encoded = msgspec.json.encode(value).decode()
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return Markup(encoded)  # noqa: S704  (no character of markup is left in it)


def _policy(style: str, script: str) -> str:
    """Return the policy: only this style and this script, and no network."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _timelines(tables: Tables, meta: ReportMetadata, ids: Sequence[str]) -> list[Timeline]:
    if meta.first_ms is None or meta.last_ms is None:
        return []
    axis = Axis.over(meta.first_ms, meta.last_ms, margin=0.01)
    own = by_cluster(tables, "windows", "terms", "timeline", "violations")
    return [_timeline(own[cluster], cluster, axis) for cluster in ids]


def _timeline(own: Tables, cluster: str, axis: Axis) -> Timeline:
    return Timeline(cluster, axis, load(own["windows"], axis), term_bars(own["terms"], axis), mark_lanes(own, axis))


def _heat_maps(tables: Tables, ids: Sequence[str]) -> list[HeatMap]:
    own = by_cluster(tables, "heat")
    maps = [(cluster, heat(own[cluster]["heat"])) for cluster in ids]
    return [HeatMap(cluster, found) for cluster, found in maps if found is not None]


def checked(tables: Tables, meta: ReportMetadata) -> list[Checked]:
    """Return all invariants, the violated ones first, the worst at the top."""
    broken: dict[str, list[Row]] = {}
    for row in of(tables, "violations"):
        broken.setdefault(text(row, "id"), []).append(row)
    known = {invariant.id: invariant for invariant in meta.invariants}
    for id_, rows in broken.items():
        known.setdefault(id_, _invariant(rows[0]))
    found = [_checked(each, broken.get(id_, []), meta) for id_, each in known.items()]
    return sorted(found, key=lambda each: (not each.times, severity_rank(each.invariant.severity), each.invariant.id))


def _checked(invariant: Invariant, rows: Sequence[Row], meta: ReportMetadata) -> Checked:
    return Checked(invariant, total(rows, "times"), _evidence(rows, meta))


def _invariant(row: Row) -> Invariant:
    return Invariant(text(row, "id"), text(row, "title"), text(row, "severity"), text(row, "question"))


def _evidence(rows: Sequence[Row], meta: ReportMetadata) -> list[ReportEvidence]:
    return [
        ReportEvidence(
            at="" if (ms := optional(row, "ts_ms")) is None else moment(ms),
            origin=f"node {number(row, 'node')} · seq {number(row, 'seq')}" if number(row, "seq") else "whole log",
            text=text(row, "evidence"),
            command="" if ms is None else at_command(ms, meta.logs),
        )
        for row in rows[:MOST_EVIDENCE]
    ]
