"""``controllerctl audit cat`` and ``stats``: the records of a span of time, and counts and sizes by kind.

They join the group of :mod:`cli.audit`.
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.audit import Directory, app, print_line, reading, require_kind, require_log
from cli.exit_codes import CliError, ExitCode
from cli.lists import TableColumn, print_columns
from cli.output import human_bytes, note, print_facts, print_value
from cli.settings import OutputFormat, settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from pathlib import Path

    from controllerd.audit.spans import LogTotals, TimeSpan

Since = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Start: 2026-01-31T03:14:00Z, or milliseconds since 1970.")
]
Until = Annotated[str | None, typer.Option("--to", metavar="TIME", help="End, exclusive.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Only records of this kind.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Only records that name this topic.")]
_REPORT_EVERY: Final = 1_000_000


@app.command()
def cat(
    context: typer.Context,
    directory: Directory,
    since: Since = None,
    until: Until = None,
    kind: Kind = None,
    topic: Topic = None,
) -> None:
    """Print the records of a log, one line each, oldest first; -o jsonl prints them as they were written.

    Examples: controllerctl audit cat DIR --from 2026-01-31T03:00:00Z --to 2026-01-31T04:00:00Z --topic payments ·
    controllerctl audit cat DIR --kind admin -o jsonl
    """
    from controllerd.audit.spans import lines_within
    from controllerd.audit.tail import LineFilter

    settings, span, shown = settings_of(context), _span(since, until), 0
    require_kind(kind)
    require_log(directory)
    with reading():
        for line in lines_within(directory, span, LineFilter(kind, topic)):
            print_line(settings, line)
            shown += 1
    if not shown:
        note("no such records")


@app.command()
def stats(context: typer.Context, directory: Directory, since: Since = None, until: Until = None) -> None:
    """Show how many records of each kind a log holds, how large they are, and over which time and terms.

    Examples: controllerctl audit stats DIR · controllerctl audit stats DIR --from 2026-01-31T00:00:00Z -o json
    """
    from controllerd.audit.spans import LogTotals, lines_within

    settings, span, totals = settings_of(context), _span(since, until), LogTotals()
    require_log(directory)
    with reading():
        for number, line in enumerate(lines_within(directory, span), 1):
            totals.add(line)
            if number % _REPORT_EVERY == 0:
                note(f"read {number:,} records")
        files, on_disk = _on_disk(directory)
    if settings.wants_json:
        print_value(settings, _document(directory, totals, files, on_disk))
    elif settings.output is OutputFormat.NAME:
        for kind in sorted(totals.records):
            typer.echo(kind)
    else:
        print_facts(settings, _facts(directory, totals, files, on_disk))
        if totals.records:
            typer.echo()
            print_columns(settings, _COLUMNS, _rows(totals))


Row = tuple[str, int, int, float]
_COLUMNS: Final[tuple[TableColumn[Row], ...]] = (
    TableColumn("KIND", lambda row: row[0]),
    TableColumn("RECORDS", lambda row: f"{row[1]:,}", right=True),
    TableColumn("SIZE", lambda row: human_bytes(row[2]), right=True),
    TableColumn("SHARE", lambda row: f"{row[3]:.1f}%", right=True),
)


def _rows(totals: "LogTotals") -> list[Row]:
    """Return the rows, the largest first."""
    whole = max(1, totals.bytes.total())
    return [(kind, totals.records[kind], size, 100 * size / whole) for kind, size in totals.bytes.most_common()]


def _facts(directory: "Path", totals: "LogTotals", files: int, on_disk: int) -> list[tuple[str, str]]:
    records, size = totals.records.total(), human_bytes(totals.bytes.total())
    return [
        ("log", f"{directory}: {counted(files, 'segment')}, {human_bytes(on_disk)} on disk"),
        ("records", f"{records:,}, {size} before compression"),
        ("from", _when(totals.first_ms)),
        ("to", _when(totals.last_ms)),
        ("terms", f"{len(totals.epochs - {0})} in {counted(len(totals.boots), 'run')} of the daemon"),
    ]


def _document(directory: "Path", totals: "LogTotals", files: int, on_disk: int) -> dict[str, object]:
    return {
        "directory": str(directory),
        "segments": files,
        "bytes_on_disk": on_disk,
        "records": totals.records.total(),
        "bytes": totals.bytes.total(),
        "first_ms": totals.first_ms,
        "last_ms": totals.last_ms,
        "epochs": sorted(totals.epochs - {0}),
        "boots": sorted(totals.boots),
        "kinds": [{"kind": kind, "records": count, "bytes": size} for kind, count, size, _ in _rows(totals)],
    }


def _on_disk(directory: "Path") -> tuple[int, int]:
    from controllerd.audit.segments import list_segments

    segments = list_segments(directory)
    return len(segments), sum(segment.path.stat().st_size for segment in segments)


def _span(since: str | None, until: str | None) -> "TimeSpan":
    """Return the span between two times. :raises CliError: one of them is invalid."""
    from controllerd.audit.spans import TimeSpan
    from controllerd.record.moments import BadMoment, parse_moment

    try:
        return TimeSpan(*(None if text is None else parse_moment(text) for text in (since, until)))
    except BadMoment as error:
        raise CliError(ExitCode.USAGE, str(error)) from None


def _when(ts_ms: int | None) -> str:
    from controllerd.record.moments import moment

    return "-" if ts_ms is None else moment(ts_ms)
