"""The tables of the page: their columns, and their rows as compact data for the page's script.

A column is sent once, not once per row: texts as indexes into a list of distinct ones, numbers as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from replay.report.metadata import ReportMetadata, Row, Tables
from replay.report.values import number, of, optional, sign

MOST_ROWS: Final = 50_000
Kind = Literal[
    "text", "name", "tp", "int", "id", "bar", "moment", "end", "span", "lasting", "range", "ids", "leader", "flag"
]
"""The kind of a column, by which the script shows and sorts it.

``id``: a number that names something; ``tp``: topic and partition; ``end`` and ``lasting``: null while it lasts;
``leader``: the leader before and after; ``range``: four percentiles whose keys begin with the column's key; ``bar``: a
number with a bar; ``ids``: brokers.
"""


class Col(NamedTuple):
    """A column; a ``minor`` one is only shown on wide screens, and in the details of a row."""

    key: str
    label: str
    kind: Kind
    minor: bool = False
    help: str = ""


class ReportView(NamedTuple):
    """One table of the page."""

    name: str
    title: str
    columns: tuple[Col, ...]
    sort: str
    """The key of the column by which it is sorted at first, with ``-`` for the largest first."""
    empty: str
    """The sentence in place of an empty table."""
    details: tuple[Col, ...] = ()
    facet: str = ""
    """A column with few values: the page offers them as a choice."""
    command: Literal["", "at", "why"] = ""
    """The command that opens a row's moment."""
    when: str = ""
    """The moment that the command names."""


_CLUSTER: Final = Col("cluster", "Cluster", "name", minor=True)
VIEWS: Final = (
    ReportView(
        "windows",
        "All windows without a leader",
        (
            Col("topic", "Partition", "tp"),
            Col("start_ms", "From", "moment"),
            Col("duration_us", "Lasted", "lasting"),
            Col("leader", "Leader", "leader", minor=True),
            Col("cause", "Begun by", "text"),
            Col("ended_by", "Ended by", "text", minor=True),
        ),
        "-duration_us",
        "No partition was without a leader.",
        (
            Col("end_ms", "Until", "end"),
            Col("start_bound", "Beginning is exact or a bound", "text"),
            Col("end_bound", "End is exact or a bound", "text"),
            Col("start_epoch", "Begun in epoch", "id"),
            Col("start_node", "by node", "id"),
            Col("start_boot", "in boot", "name"),
            Col("start_seq", "record", "id"),
            Col("start_event", "event", "id"),
            Col("end_epoch", "Ended in epoch", "id"),
            Col("end_node", "by node", "id"),
            Col("end_boot", "in boot", "name"),
            Col("end_seq", "record", "id"),
            Col("end_event", "event", "id"),
        ),
        facet="ended_by",
        command="why",
        when="start_ms",
    ),
    ReportView(
        "topic_windows",
        "By topic",
        (
            Col("topic", "Topic", "name"),
            Col("total_us", "Lost in all", "bar"),
            Col("longest_us", "Longest", "span"),
            Col("windows", "Windows", "int"),
            Col("partitions", "Partitions", "int"),
            Col("open", "Still open", "int", minor=True),
            Col("first_ms", "First", "moment", minor=True),
            Col("last_ms", "Last", "moment", minor=True),
        ),
        "-total_us",
        "No topic lost time.",
    ),
    ReportView(
        "incidents",
        "All incidents",
        (
            Col("incident", "No.", "id"),
            Col("start_ms", "From", "moment"),
            Col("partitions", "Partitions", "int"),
            Col("longest_us", "Longest", "span"),
            Col("total_us", "Lost in all", "bar"),
            Col("worst_topic", "Worst topic", "name", minor=True),
            Col("cause", "Cause", "text"),
        ),
        "start_ms",
        "There was no incident.",
        (Col("end_ms", "Until", "end"), Col("windows", "Windows", "int"), Col("topics", "Topics", "int")),
        command="at",
        when="start_ms",
    ),
    ReportView(
        "churn",
        "Partitions that changed most",
        (
            Col("topic", "Partition", "tp"),
            Col("leader_changes", "Leader changes", "bar"),
            Col("epoch_bumps", "Epoch bumps", "int"),
            Col("shrinks", "ISR shrinks", "int"),
            Col("expands", "ISR expands", "int"),
            Col("elections", "Elections", "int"),
            Col("windows", "Windows", "int", minor=True),
            Col("last_ms", "Last change", "moment", minor=True),
        ),
        "-leader_changes",
        "No partition changed its leader or its ISR.",
        command="why",
        when="last_ms",
    ),
    ReportView(
        "elections",
        "Elections by kind",
        (
            Col("strategy", "Strategy", "text"),
            Col("unclean", "Unclean", "flag"),
            Col("partitions", "Partitions", "bar"),
            Col("events", "Events", "int"),
            Col("first_ms", "First", "moment", minor=True),
            Col("last_ms", "Last", "moment", minor=True),
        ),
        "-partitions",
        "No leader was elected.",
    ),
    ReportView(
        "events",
        "Waiting and handling",
        (
            Col("name", "Event", "text"),
            Col("count", "Count", "int"),
            Col("failed", "Failed", "int", help="ended otherwise than done"),
            Col("queued", "Waited in the queue", "range", help="sorted by p99"),
            Col("took", "Handled in", "range", help="sorted by p99"),
        ),
        "-took",
        "No event was handled.",
        (Col("state", "Code of its ControllerState", "id"),),
    ),
    ReportView(
        "requests",
        "Answers of brokers",
        (
            Col("broker", "Broker", "id"),
            Col("api", "Request", "text"),
            Col("count", "Count", "int"),
            Col("errors", "Errors", "int"),
            Col("retried", "Retried", "int", help="needed more than one attempt"),
            Col("took", "Answered in", "range", help="sorted by p99"),
        ),
        "-took",
        "No broker answered a request.",
        (Col("bytes", "Bytes sent", "int"),),
        facet="api",
    ),
    ReportView(
        "reassignments",
        "Reassignments",
        (
            Col("topic", "Partition", "tp"),
            Col("begun_ms", "From", "moment"),
            Col("duration_us", "Lasted", "lasting"),
            Col("outcome", "Outcome", "text"),
            Col("adding", "Adding", "ids", minor=True),
            Col("removing", "Removing", "ids", minor=True),
            Col("waited_for", "Waited for broker", "ids"),
        ),
        "-duration_us",
        "No partition was reassigned.",
        (
            Col("ended_ms", "Until", "end"),
            Col("replicas", "Replicas when it began", "ids"),
            Col("caught_up_ms", "The last one caught up", "moment"),
        ),
        facet="outcome",
        command="why",
        when="begun_ms",
    ),
    ReportView(
        "deletions",
        "Deletions of topics",
        (
            Col("topic", "Topic", "name"),
            Col("asked_ms", "Asked for", "moment"),
            Col("duration_us", "Lasted", "lasting"),
            Col("halts", "Halts", "int", minor=True),
            Col("halted_us", "Halted for", "span"),
            Col("blocked_by", "Blocked by", "text"),
        ),
        "-duration_us",
        "No topic was deleted.",
        (Col("started_ms", "Started", "moment"), Col("ended_ms", "Done", "end")),
        command="at",
        when="asked_ms",
    ),
    ReportView(
        "terms",
        "Terms of controllers",
        (
            Col("epoch", "Epoch", "id"),
            Col("node", "Node", "id"),
            Col("begin_ms", "From", "moment"),
            Col("end_ms", "Until", "moment", minor=True),
            Col("how_begun", "Begun", "text"),
            Col("how_ended", "Ended", "text"),
            Col("reason", "Reason", "text"),
        ),
        "epoch",
        "No controller began a term.",
        (Col("ready_ms", "Ready", "moment"), Col("records", "Records", "int"), Col("boot", "Boot", "name")),
        command="at",
        when="begin_ms",
    ),
    ReportView(
        "timeline",
        "Everything on the timeline",
        (
            Col("ts_ms", "When", "moment"),
            Col("kind", "Kind", "text"),
            Col("text", "What", "text"),
            Col("epoch", "Epoch", "id", minor=True),
            Col("node", "Node", "id", minor=True),
            Col("seq", "Record", "id", minor=True),
        ),
        "ts_ms",
        "Nothing rare happened: no term began, no broker came or went, nothing raised an alarm.",
        facet="kind",
        command="at",
        when="ts_ms",
    ),
    ReportView(
        "quality",
        "Findings about the logs",
        (
            Col("what", "What", "text"),
            Col("count", "Count", "int"),
            Col("detail", "Detail", "text"),
            Col("file", "File", "name"),
            Col("line", "Line", "id", minor=True),
            Col("node", "Node", "id", minor=True),
        ),
        "what",
        "No gap, no duplicate, no damage. (In Kafka's own logs, which number no lines, a missing one is not noticed.)",
        (
            Col("boot", "Boot", "name"),
            Col("first_seq", "From record", "id"),
            Col("last_seq", "To record", "id"),
        ),
        facet="what",
    ),
    ReportView(
        "sources",
        "What was read, by run of a process",
        (
            Col("node", "Node", "id"),
            Col("boot", "Boot", "name"),
            Col("source", "Log of", "text"),
            Col("records", "Records", "bar"),
            Col("first_ms", "First", "moment", minor=True),
            Col("last_ms", "Last", "moment", minor=True),
        ),
        "first_ms",
        "No log was read.",
    ),
)
BY_NAME: Final = {view.name: view for view in VIEWS}
_PERCENTILES: Final = ("p50", "p95", "p99", "max")


class Data(NamedTuple):
    """A table for the script; the page does not contain the ``left_out`` rows."""

    view: ReportView
    rows: int
    left_out: int
    payload: Mapping[str, object]


def data(view: ReportView, tables: Tables, meta: ReportMetadata, *, many_clusters: bool) -> Data:
    """Return the first rows of a table in its order, at most ``MOST_ROWS``."""
    rows = of(tables, view.name)
    shown = _first(rows, view)
    columns = (_CLUSTER, *view.columns) if many_clusters else view.columns
    values = _by_column(shown, _keys((*columns, *view.details), view))
    if view.name == "windows":
        values["sign"] = list(map(sign, values["start_bound"], values["end_bound"]))
    payload: dict[str, object] = {
        "columns": [column._asdict() for column in columns],
        "details": [column._asdict() for column in view.details],
        "sort": view.sort,
        "facet": view.facet,
        "command": view.command if meta.logs else "",
        "when": view.when,
        "logs": meta.logs,
        "length": len(shown),
        "values": {key: _encoded(column) for key, column in values.items()},
    }
    return Data(view, len(shown), len(rows) - len(shown) + meta.left_out.get(view.name, 0), payload)


def _by_column(rows: Iterable[Row], keys: Iterable[str]) -> dict[str, list[object]]:
    """Return the values of each column, from one pass over the rows: an engine may decode them in every pass."""
    columns: dict[str, list[object]] = {key: [] for key in keys}
    for row in rows:
        for key, column in columns.items():
            column.append(row.get(key))
    return columns


def _first(rows: Sequence[Row], view: ReportView) -> Sequence[Row]:
    """Return the rows that the page shows first; windows that still last come before all others."""
    if len(rows) <= MOST_ROWS:
        return rows
    key, largest_first = view.sort.removeprefix("-"), view.sort.startswith("-")
    if not largest_first:
        return rows[:MOST_ROWS]
    key = f"{key}_p99_us" if key in {"took", "queued"} else key
    return sorted(rows, key=lambda row: (optional(row, key) is not None, -number(row, key)))[:MOST_ROWS]


def _keys(columns: Iterable[Col], view: ReportView) -> list[str]:
    """Return the keys of the columns that a view needs."""
    keys: dict[str, None] = dict.fromkeys(filter(None, (view.facet, view.when)))
    for column in columns:
        match column.kind:
            case "tp":
                keys |= dict.fromkeys(("topic", "partition"))
            case "leader":
                keys |= dict.fromkeys(("leader_before", "leader_after"))
            case "range":
                keys |= dict.fromkeys(f"{column.key}_{point}_us" for point in _PERCENTILES)
            case _:
                keys[column.key] = None
    return list(keys)


def _encoded(values: Sequence[object]) -> object:
    """Encode a column: texts as distinct texts with indexes, -1 for null; other values unchanged."""
    if not any(isinstance(value, str) for value in values):
        return values
    distinct: dict[str, int] = {}
    indexes = [-1 if v is None else distinct.setdefault(str(v), len(distinct)) for v in values]
    return {"of": list(distinct), "at": indexes}
