"""``controllerctl audit``: verify an audit log, export its head, show its records; from files, without a daemon."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.exit_codes import CliError, ExitCode
from cli.output import is_watched, note, print_data, print_facts, print_table
from cli.settings import CliSettings, OutputFormat, settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from controllerd.audit.chain import RawLine
    from controllerd.audit.findings import AuditFinding
    from controllerd.audit.heads import ExportedHead
    from controllerd.audit.reader import AuditReader, Report

app: Final = typer.Typer(
    help="Verify an audit log, export its head, show its records; from files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_POLL_S: Final = 0.5
_SHOWN: Final = 3
"""Rows of a column that a line of the table format shows."""

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of one log: <audit.dir>/<cluster id>/<node id>.")
]
Key = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="File with the key of the signatures: audit.head_key_file.")
]


@app.command()
def verify(
    context: typer.Context,
    directory: Directory,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="FILE", help="File of exported heads, one per line; - for standard input."),
    ] = None,
    key: Key = None,
) -> None:
    """Read all of an audit log, follow its hash chain, and report damage and manipulation.

    Exits with status 0 if the log is whole, 65 if it is not, 66 if there is none. Only an exported head shows whether
    the end was cut off, an older copy was put back, or everything was written anew.

    Examples: controllerctl audit verify /var/lib/controllerd/prod/audit/F3b7X-qcQQO2zc0sIq49Pw/2000000000 ·
    controllerctl audit verify DIR --head heads.jsonl --key audit.key -o json
    """
    from controllerd.audit.reader import AuditReader

    settings, heads = settings_of(context), _heads(head, key)
    require_log(directory)
    reader = AuditReader(directory, heads=heads)
    _read_with_progress(reader)
    report = reader.report()
    if settings.wants_json:
        print_data(settings, _document(report, directory, heads))
    elif settings.output is OutputFormat.NAME:
        for segment in dict.fromkeys(finding.segment for finding in report.findings if finding.segment):
            typer.echo(segment)
    else:
        _print_report(settings, report, directory, heads, key)
    if not report.lines and report.is_intact:
        raise CliError(ExitCode.NO_INPUT, f"{directory} has segments but no whole line")
    if not report.is_intact:
        raise typer.Exit(ExitCode.DAMAGED)


@app.command("head")
def newest_head(context: typer.Context, directory: Directory, key: Key = None) -> None:
    """Print the head of a log: the number and hash of its newest line. Keep it out of reach of writers of the log.

    It shows later whether the log was cut off, rolled back or written anew; verify the log before you trust it.

    Examples: controllerctl audit head DIR >> heads.jsonl · controllerctl audit head DIR --key audit.key
    """
    import time

    from controllerd.audit.heads import encode_head
    from controllerd.audit.tail import newest_head as read_head

    settings = settings_of(context)
    require_log(directory)
    with reading():
        found = read_head(directory, time.time_ns() // 1_000_000)
    if found is None:
        raise CliError(ExitCode.NO_INPUT, f"{directory} has no whole line yet: nothing to export")
    if settings.output is OutputFormat.NAME:
        typer.echo(found.hash)
    else:
        print_data(settings, encode_head(found, _key(key)), one_line=settings.output is not OutputFormat.YAML)


@app.command()
def tail(
    context: typer.Context,
    directory: Directory,
    last: Annotated[
        int, typer.Option("-n", "--last", metavar="NUMBER", min=0, help="Number of records to begin with.")
    ] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue with new records until Ctrl-C.")] = False,
    kind: Annotated[str | None, typer.Option("--kind", help="Only records of this kind.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only records that name this topic.")] = None,
) -> None:
    """Show the newest records of a log, one line each; -o jsonl prints them as they were written.

    Examples: controllerctl audit tail DIR -n 100 --kind alarm ·
    controllerctl audit tail DIR --follow --topic payments -o jsonl
    """
    import time

    from controllerd.audit.tail import LineFilter, end_of, newest_lines
    from controllerd.audit.tail import follow as follow_lines

    settings, choice = settings_of(context), LineFilter(kind, topic)
    require_kind(kind)
    require_log(directory)
    shown = 0
    with reading():
        end = end_of(directory) if follow else None
        newest = newest_lines(directory, last, choice, end) if last else []
    for line in newest:
        print_line(settings, line)
        shown += 1
    if end is None:
        if last and not shown:
            note("no such records")
        return
    try:
        for line in follow_lines(directory, end, lambda: time.sleep(_POLL_S), choice):
            print_line(settings, line)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@app.command()
def schema(context: typer.Context) -> None:
    """Print the JSON Schema of a line of the log; docs/audit.md explains every kind, and -o name lists them.

    Examples: controllerctl audit schema · controllerctl audit schema > audit.schema.json
    """
    from controllerd.audit.schema import encoded_schema
    from controllerd.record.kinds import KINDS

    settings = settings_of(context)
    if settings.output is OutputFormat.NAME:
        for kind in KINDS:
            typer.echo(kind)
    else:
        print_data(settings, encoded_schema())


# -- arguments ---------------------------------------------------------------------------------------------------------


def require_log(directory: Path) -> None:
    """Check that there is a log. :raises CliError: there is none; the message names one nearby."""
    from controllerd.audit.segments import list_segments

    with reading():
        if not directory.is_dir():
            raise CliError(ExitCode.NO_INPUT, f"{directory} is not a directory; see audit.dir of the configuration")
        if list_segments(directory):
            return
        below = sorted(path.parent for depth in ("*/", "*/*/") for path in directory.glob(f"{depth}*.jsonl*"))
    hint = f"; there is one in {below[0]}" if below else ""
    raise CliError(ExitCode.NO_INPUT, f"{directory} holds no segments of an audit log{hint}")


@contextmanager
def reading() -> Iterator[None]:
    """Turn failures to read into errors of the command line. :raises CliError: a file cannot be read."""
    try:
        yield
    except OSError as problem:
        hint = (
            "run the command as a user with read access"
            if isinstance(problem, PermissionError)
            else "see docs/audit.md"
        )
        raise CliError(ExitCode.NO_INPUT, f"{problem.filename} cannot be read: {problem.strerror}; {hint}") from None


def require_kind(kind: str | None) -> None:
    """Check the name of a kind. :raises CliError: there is no such kind."""
    from controllerd.record.kinds import KINDS

    if kind is not None and kind not in KINDS:
        raise CliError(ExitCode.USAGE, f"no kind {kind!r}; there are {', '.join(sorted(KINDS))}")


def _key(path: Path | None) -> bytes | None:
    from controllerd.audit.heads import BadHead, read_key

    try:
        return read_key(path) if path is not None else None
    except BadHead as problem:
        raise CliError(ExitCode.USAGE, str(problem)) from None
    except OSError as problem:
        raise CliError(ExitCode.USAGE, f"the key {path} cannot be read: {problem.strerror}") from None


def _heads(source: str | None, key: Path | None) -> "list[ExportedHead]":
    from controllerd.audit.heads import BadHead, BadSignature, decode_heads

    secret = _key(key)
    if source is None:
        if secret is not None:
            raise CliError(ExitCode.USAGE, "--key needs --head: it checks the signatures of exported heads")
        return []
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return decode_heads(data, secret)
    except OSError as problem:
        raise CliError(ExitCode.USAGE, f"the heads in {source} cannot be read: {problem.strerror}") from None
    except BadSignature as problem:
        raise CliError(ExitCode.DAMAGED, f"{source}: {problem}") from None
    except BadHead as problem:
        raise CliError(ExitCode.USAGE, f"{source}: {problem}") from None


def _read_with_progress(reader: "AuditReader") -> None:
    """Read everything; on a terminal with a progress bar on standard error."""
    if not is_watched():
        for _ in reader.chunks():
            pass
        return
    from rich.console import Console
    from rich.progress import Progress

    names = {segment.path.name: number for number, segment in enumerate(reader.segments, 1)}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {counted(len(names), 'segment')}", total=len(names))
        for chunk in reader.chunks():
            progress.update(task, completed=names.get(chunk[0].segment, 0))


# -- printing ----------------------------------------------------------------------------------------------------------


def _document(report: "Report", directory: Path, heads: "Sequence[ExportedHead]") -> bytes:
    import msgspec

    document = {
        "directory": str(directory),
        "intact": report.is_intact,
        "lines": report.lines,
        "head": report.head._asdict() if report.head is not None else None,
        "findings": [{**finding._asdict(), "harm": finding.harm.value} for finding in report.findings],
        "gaps": report.gaps,
        "torn_tails": [torn._asdict() for torn in report.torn_tails],
        "unknown_kinds": report.unknown_kinds,
        "newer_lines": report.newer_lines,
        "notes": report.notes,
        "heads_checked": len(heads),
    }
    return msgspec.json.encode(document)


def _print_report(
    settings: CliSettings, report: "Report", directory: Path, heads: "Sequence[ExportedHead]", key: Path | None
) -> None:
    print_facts(settings, _facts(report, directory, heads, key))
    if report.findings:
        typer.echo()
        print_table(settings, ("HARM", "NUMBERS", "AT", "WHY"), map(_row, report.findings))
        typer.echo()
        typer.echo("next: keep a copy of the directory as it is, and see docs/audit.md, Recovery")


def _facts(
    report: "Report", directory: Path, heads: "Sequence[ExportedHead]", key: Path | None
) -> Iterator[tuple[str, str]]:
    yield "log", str(directory)
    yield "verdict", "whole" if report.is_intact else f"{counted(len(report.findings), 'harm')} found"
    yield "lines", str(report.lines)
    if report.head is not None:
        yield "head", f"seq {report.head.seq} of boot {report.head.boot}, {report.head.hash}"
    signed = " with good signatures" if key is not None else ", signatures not checked: no --key"
    against = f"against {counted(len(heads), 'exported head')}{signed}"
    yield "checked", against if heads else "the chain only: no exported head"
    for gap in report.gaps:
        yield "declared lost", f"seq {gap.first_seq}..{gap.last_seq}: {gap.reason}"
    for torn in report.torn_tails:
        yield "torn tail", f"{torn.bytes} bytes at {torn.segment} line {torn.line}, as a crash leaves them"
    for kind, number in report.unknown_kinds.items():
        yield "unknown kind", f"{kind}: {counted(number, 'line')}, of a newer version or damaged inside"
    for text in report.notes:
        yield "note", text


def _row(finding: "AuditFinding") -> tuple[str, str, str, str]:
    at = f"{finding.segment}:{finding.line}" if finding.segment else "exported head"
    return finding.harm.value, finding.numbers, at, finding.detail


def print_line(settings: CliSettings, line: "RawLine") -> None:
    """Print one record: as a line of text, or as it was written."""
    entry = line.entry
    if settings.wants_json:
        import msgspec

        print_data(settings, msgspec.json.encode(entry), one_line=True)
        return
    if settings.output is OutputFormat.NAME:
        typer.echo(f"{entry.boot}.{entry.seq}")
        return
    from controllerd.audit.tail import data_of

    facts = " ".join(f"{name}={_short(value)}" for name, value in data_of(line).items())
    typer.echo(f"{_when(entry.ts_ms)} epoch {entry.epoch} event {entry.event} seq {entry.seq} {entry.kind}: {facts}")


def _when(ts_ms: int) -> str:
    """Return a time of the wall clock as text; in milliseconds if there is no such time."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{ts_ms} ms"


def _short(value: object) -> str:
    if isinstance(value, list) and len(value) > _SHOWN:
        return f"[{', '.join(map(_short, value[:_SHOWN]))} and {len(value) - _SHOWN} more]"
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, list) else str(value)
