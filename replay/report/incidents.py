"""The incidents, the worst first, each with the chain of events that led to it, and its cause."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from controllerd.record.moments import duration, moment
from replay.report.charts.axis import Axis
from replay.report.charts.load import LoadChart, load
from replay.report.metadata import ReportMetadata, Row, Tables
from replay.report.values import at_command, count, number, of, optional, place, text

MOST_SHOWN: Final = 20
MOST_LINKS: Final = 60
_JUST_BEFORE_MS: Final = 30_000
"""Without event numbers: the longest time before a window in which the loss of a broker is its cause."""
_Phase = Literal["before", "during", "after"]


class IncidentLink(NamedTuple):
    """One entry of the chain; ``offset`` is its distance from the beginning of the incident."""

    at: str
    offset: str
    kind: str
    text: str
    origin: str
    is_cause: bool
    phase: _Phase


class Incident(NamedTuple):
    """The content of the page about one incident, as text."""

    cluster: str
    number: int
    anchor: str
    start_ms: int
    start: str
    end: str
    lasted: str
    headline: str
    cause: str
    worst_topic: str
    total: str
    longest: str
    most: int
    axis: Axis
    load: LoadChart
    band: tuple[float, float]
    links: list[IncidentLink]
    links_left_out: int
    command: str
    is_open: bool


_Events = Mapping[tuple[str, int, int, str, int], int]
"""The event in which a record of the timeline was written, by cluster and place."""


def incidents(tables: Tables, meta: ReportMetadata) -> list[Incident]:
    """Return the worst ``MOST_SHOWN`` incidents by lost partition time, lasting ones first, in the order of time."""
    rows = of(tables, "incidents")
    worst = sorted(rows, key=lambda row: (row.get("end_ms") is not None, -number(row, "total_us")))[:MOST_SHOWN]
    worst.sort(key=lambda row: (text(row, "cluster"), number(row, "start_ms")))
    chains = _chains(tables)
    windows = _windows(tables, rows)
    events = {(text(row, "cluster"), *place(row)): number(row, "event") for row in of(tables, "timeline")}
    links = [_links(row, chains[_key(row)], windows[_key(row)], events) for row in worst]
    return [_incident(n, row, meta, links[n - 1], windows[_key(row)]) for n, row in enumerate(worst, 1)]


def _key(row: Row) -> tuple[str, int]:
    return text(row, "cluster"), number(row, "incident")


def _chains(tables: Tables) -> Mapping[tuple[str, int], list[Row]]:
    chains: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in of(tables, "incident_chain"):
        chains[_key(row)].append(row)
    return chains


def _windows(tables: Tables, rows: Sequence[Row]) -> Mapping[tuple[str, int], list[Row]]:
    """Return the windows by incident: each belongs to the last incident of its cluster that began before it did."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    begun = sorted((text(row, "cluster"), number(row, "start_ms"), number(row, "incident")) for row in rows)
    latest = 0
    order = sorted(of(tables, "windows"), key=lambda row: (text(row, "cluster"), number(row, "start_ms")))
    for window in order:
        start = (text(window, "cluster"), number(window, "start_ms"))
        while latest + 1 < len(begun) and begun[latest + 1][:2] <= start:
            latest += 1
        if begun:
            found[begun[latest][0], begun[latest][2]].append(window)
    return found


def _incident(
    position: int, row: Row, meta: ReportMetadata, links: list[IncidentLink], windows: Sequence[Row]
) -> Incident:
    start, end = number(row, "start_ms"), optional(row, "end_ms")
    until = max(start, meta.last_ms or start) if end is None else end
    axis = Axis.over(start, until, margin=0.12)
    partitions, topics = count(number(row, "partitions"), "partition"), count(number(row, "topics"), "topic")
    shape = load(windows, axis)
    return Incident(
        cluster=text(row, "cluster"),
        number=number(row, "incident"),
        anchor=f"incident-{position}",
        start_ms=start,
        start=moment(start),
        end=moment(end) if end is not None else "",
        lasted=duration((until - start) * 1000),
        headline=f"{partitions} of {topics} without a leader",
        cause=text(row, "cause"),
        worst_topic=text(row, "worst_topic"),
        total=duration(number(row, "total_us")),
        longest=duration(number(row, "longest_us")),
        most=shape.most,
        axis=axis,
        load=shape,
        band=(axis.x(start), axis.x(until)),
        links=links[:MOST_LINKS],
        links_left_out=max(0, len(links) - MOST_LINKS),
        command=at_command(start, meta.logs),
        is_open=end is None,
    )


def _links(row: Row, chain: Sequence[Row], windows: Sequence[Row], events: _Events) -> list[IncidentLink]:
    """Return the chain; if no entry in it is the cause, the incident's own text of the cause is inserted."""
    start, end = number(row, "start_ms"), optional(row, "end_ms")
    cause = _cause(chain, windows, events)
    links = [_link(each, start, end, each is cause) for each in chain]
    if cause is None and text(row, "cause"):
        words = IncidentLink(
            moment(start), "+0.000 s", "event", text(row, "cause"), "as the first window names it", True, "during"
        )
        links.insert(sum(link.phase == "before" for link in links), words)
    return links


def _link(row: Row, start: int, end: int | None, is_cause: bool) -> IncidentLink:
    at = number(row, "ts_ms")
    phase: _Phase = "before" if at < start else "during" if end is None or at <= end else "after"
    epoch, node, _, seq = place(row)
    ahead = "+" if at >= start else ""
    offset = f"{ahead}{(at - start) / 1000:,.3f} s"
    origin = f"node {node} · epoch {epoch} · seq {seq}"
    return IncidentLink(moment(at), offset, text(row, "kind"), text(row, "text"), origin, is_cause, phase)


def _cause(chain: Sequence[Row], windows: Sequence[Row], events: _Events) -> Row | None:
    """Return the rows of the timeline about the event that began the first window, changes of brokers first."""
    if not windows:
        return None
    first = windows[0]
    begin, event = place(first, "start_"), number(first, "start_event")
    boot = [row for row in chain if place(row)[:3] == begin[:3] and place(row) <= begin]
    if event:
        found = [row for row in boot if events.get((text(row, "cluster"), *place(row))) == event]
    else:
        since = number(first, "start_ms") - _JUST_BEFORE_MS
        found = [row for row in boot if text(row, "kind") == "brokers" and number(row, "ts_ms") >= since]
    return max(found, key=lambda row: (text(row, "kind") == "brokers", place(row)), default=None)
