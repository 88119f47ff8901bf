"""``controllerctl replay run``, ``ingest`` and ``report``: from logs to facts and a report."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.exit_codes import CliError, ExitCode
from cli.output import human_duration, is_watched, note, print_data, print_facts, print_value
from cli.settings import CliSettings, OutputFormat, settings_of

if TYPE_CHECKING:
    from replay.facts.engine import IngestResult, OnProgress, ReplayProgress
    from replay.run import EngineName, Options, ReplayOutcome

Severity = Literal["critical", "error", "warning"]
Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="Audit logs, or state-change.log, controller.log and server.log of Kafka: files, folders, globs, URLs.",
    ),
]
Out = Annotated[str, typer.Option("--out", metavar="DIR", help="Directory for facts, tables and the report.")]
EngineOption = Annotated[
    Literal["auto", "local", "spark"],
    typer.Option("--engine", help="Engine; auto: local, unless the inputs are on another host."),
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Master of Spark, where its configuration has none.")]
FailOn = Annotated[Severity, typer.Option(help="Exit with status 1 from this severity of a violated invariant on.")]
Cluster = Annotated[str | None, typer.Option(metavar="NAME", help="Name for the cluster of Kafka's own logs.")]
Pattern = Annotated[
    str | None, typer.Option("--log-pattern", metavar="LAYOUT", help="Layout (log4j) of Kafka's own logs.")
]
Zone = Annotated[
    str, typer.Option("--log-timezone", metavar="ZONE", help="Time zone of Kafka's own logs: Europe/Berlin.")
]
Follow = Annotated[bool, typer.Option("--follow", help="Continue with new files until Ctrl-C; with Spark only.")]
Every = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Interval of --follow.")]
Format = Annotated[
    Literal["audit", "kafka"] | None, typer.Option("--format", help="Format of all files, whatever their names.")
]
_INTERRUPTED = "interrupted: ingested facts are kept, and the same command continues from there"
_LINE_EVERY_S = 10.0
_KIB = 1024


def run(
    context: typer.Context,
    inputs: Inputs,
    out: Out,
    engine: EngineOption = "auto",
    master: Master = None,
    fail_on: FailOn = "warning",
    cluster: Cluster = None,
    log_pattern: Pattern = None,
    log_timezone: Zone = "UTC",
    log_format: Format = None,
    follow: Follow = False,
    every: Every = 60.0,
) -> None:
    """Read logs and write a report: report.html, report.json, report.md and every table.

    A second run reads only what is new. Exits with status 65 if a log is incomplete, with 1 if an invariant is
    violated.
    With --follow it continues until Ctrl-C or SIGTERM, and exits with the status of the newest report.

    Examples: controllerctl replay run /var/lib/controllerd/audit --out report ·
    controllerctl replay run 'broker*/*.log*' --out report --log-timezone Europe/Berlin
    """
    settings = settings_of(context)
    with _cli_errors():
        from replay.run import run as replay

        options = _options(inputs, out, engine, master, fail_on, cluster, log_pattern, log_timezone, log_format)
        outcome = _follow(options, every) if follow else replay(options, _progress())
    _end(settings, outcome)


def _follow(options: "Options", every_s: float) -> "ReplayOutcome":
    from replay.run import choose

    if options.engine == "local":
        raise CliError(ExitCode.USAGE, "--follow needs Spark: use --engine spark, or run again later")
    choose("spark", options.inputs.paths)
    from replay.job.follow import follow_until_signal

    return follow_until_signal(options, every_s, _progress())


def ingest(
    context: typer.Context,
    inputs: Inputs,
    out: Out,
    engine: EngineOption = "auto",
    master: Master = None,
    cluster: Cluster = None,
    log_pattern: Pattern = None,
    log_timezone: Zone = "UTC",
    log_format: Format = None,
) -> None:
    """Turn new parts of the logs into facts as Parquet; `report` makes a report of them.

    Examples: controllerctl replay ingest /var/lib/controllerd/audit --out facts ·
    controllerctl replay ingest s3a://logs/audit --out facts
    """
    settings = settings_of(context)
    with _cli_errors():
        from replay.run import ingest as replay

        options = _options(inputs, out, engine, master, "warning", cluster, log_pattern, log_timezone, log_format)
        result = replay(options, _progress())
    _print_ingested(settings, result, out)


def report(
    context: typer.Context,
    out: Annotated[str, typer.Argument(metavar="DIR", help="Directory that ingest has written facts to.")],
    engine: EngineOption = "auto",
    master: Master = None,
    fail_on: FailOn = "warning",
) -> None:
    """Write the report of facts that were ingested before.

    Examples: controllerctl replay report facts · controllerctl replay report facts --fail-on critical
    """
    settings = settings_of(context)
    with _cli_errors():
        from replay.run import report as replay

        options = _options([], out, engine, master, fail_on, None, None, "UTC", None)
        outcome = replay(options, _progress())
    _end(settings, outcome)


def _options(
    inputs: list[str],
    out: str,
    engine: "EngineName",
    master: str | None,
    fail_on: str,
    cluster: str | None,
    log_pattern: str | None,
    log_timezone: str,
    log_format: Literal["audit", "kafka"] | None,
) -> "Options":
    from replay.facts.engine import Inputs as Places
    from replay.run import Options

    return Options(Places(tuple(inputs), cluster, log_pattern, log_timezone, log_format), out, engine, master, fail_on)


@contextmanager
def _cli_errors() -> Iterator[None]:
    """Turn errors of the engine, and Ctrl-C, into errors of the command line."""
    from replay.facts.engine import ReplayError

    try:
        yield
    except ReplayError as error:
        raise CliError(ExitCode.NO_INPUT, str(error)) from None
    except KeyboardInterrupt:
        raise CliError(ExitCode.INTERRUPTED, _INTERRUPTED) from None


# -- printing ----------------------------------------------------------------------------------------------------------


def _end(settings: CliSettings, outcome: "ReplayOutcome") -> None:
    if settings.wants_json:
        import msgspec

        ingested = outcome.ingested._asdict() if outcome.ingested is not None else None
        print_data(settings, msgspec.json.encode({**_fields(outcome), "ingested": ingested}, enc_hook=str))
    elif settings.output is OutputFormat.NAME:
        for file in outcome.files:
            typer.echo(str(file))
    else:
        typer.echo(outcome.sentence)
        for file in outcome.files:
            typer.echo(f"  {file}")
    if outcome.harm:
        raise typer.Exit(ExitCode.DAMAGED)
    if outcome.violations:
        raise typer.Exit(ExitCode.NO)


def _fields(outcome: "ReplayOutcome") -> dict[str, object]:
    return {name: getattr(outcome, name) for name in outcome.__slots__}


def _print_ingested(settings: CliSettings, result: "IngestResult", out: str) -> None:
    if settings.wants_json:
        print_value(settings, result._asdict())
        return
    if settings.output is OutputFormat.NAME:
        typer.echo(out)
        return
    print_facts(
        settings,
        [
            ("files", f"{result.files:,} read, {result.unchanged:,} unchanged"),
            ("lines", f"{result.lines:,}, {result.facts:,} facts"),
            ("problems", f"{result.problems:,}" if result.problems else "none"),
        ],
    )


def _progress() -> "OnProgress":
    """Return a printer of the progress: one changing line on a terminal, else a line now and then."""
    return _ProgressPrinter(is_terminal=is_watched())


class _ProgressPrinter:
    """Prints the progress to standard error."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._stage = ""
        self._began = self._printed = time.monotonic()

    def __call__(self, progress: "ReplayProgress") -> None:
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._began, self._printed = progress.stage, now, now
        elif progress.done < progress.total and now - self._printed < (0.2 if self._is_terminal else _LINE_EVERY_S):
            return
        self._printed = now
        self._print(progress, now - self._began)

    def _print(self, progress: "ReplayProgress", elapsed_s: float) -> None:
        text = f"{progress.stage}: {_amount(progress.done, progress.unit)}"
        if progress.total:
            text += f" of {_amount(progress.total, progress.unit)}"
        if progress.done and elapsed_s >= 1:
            text += f", {_amount(int(progress.done / elapsed_s), progress.unit)}/s"
        if 0 < progress.done < progress.total:
            text += f", {human_duration(elapsed_s * (progress.total - progress.done) / progress.done)} left"
        if self._is_terminal:
            is_done = progress.total > 0 and progress.done >= progress.total
            typer.echo(f"\r\x1b[K{text}", nl=is_done, err=True)
        else:
            note(text)


def _amount(number: int, unit: str) -> str:
    if unit != "bytes":
        return f"{number:,} {unit}"
    size, names = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= _KIB and len(names) > 1:
        size, names = size / _KIB, names[1:]
    return f"{size:.4g} {names[0]}"
