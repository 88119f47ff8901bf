"""``controllerctl replay``: the analysis of audit logs or of Kafka's own logs, without a daemon."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import replay_run
from cli.exit_codes import CliError, ExitCode
from cli.output import note, print_facts, print_table, print_value
from cli.settings import CliSettings, OutputFormat, settings_of

if TYPE_CHECKING:
    from controllerd.record.travel import Moment
    from replay.command.logs import Problems
    from replay.command.state import StateAt
    from replay.command.why import PartitionExplanation

app: Final = typer.Typer(
    help="Analyze logs: reports, the state at any time, the cause of an outage.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(replay_run.run)
app.command()(replay_run.ingest)
app.command()(replay_run.report)
_HISTORY_MS: Final = 24 * 3_600_000
"""The span before the asked time in which ``why`` looks for causes."""

Logs = Annotated[
    list[Path],
    typer.Argument(metavar="LOG...", help="Directories of audit logs, or directories above them; nodes are merged."),
]
Topics = Annotated[str, typer.Option("--topic", metavar="GLOB", help="Only topics whose name matches.")]


@app.command()
def why(
    context: typer.Context,
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="Partition, as in payments-7.")],
    logs: Logs,
    at: Annotated[
        str, typer.Option("--at", metavar="TIME", help="Time, as 2026-01-31T03:14:00Z or milliseconds since 1970.")
    ],
) -> None:
    """Explain in a few sentences why a partition had no leader at a time, or which broker led it.

    Exits with status 3 if there was no such partition, with 65 if the log is damaged or records are missing.

    Examples: controllerctl replay why payments-7 --at 2026-01-31T03:14:00Z /var/lib/controllerd/audit ·
    controllerctl replay why payments-7 --at 1769829240000 a/audit b/audit -o json
    """
    from replay.command import logs as files
    from replay.command.partition_history import read_history
    from replay.command.why import explain, parse_partition

    settings, at_ms = settings_of(context), _moment(at)
    try:
        tp = parse_partition(partition)
    except ValueError as error:
        raise CliError(ExitCode.USAGE, str(error)) from None
    problems = files.Problems()
    found = _directories(logs)
    history = read_history(tp, files.read_logs(found, problems, at_ms - _HISTORY_MS), at_ms)
    explanation = explain(history, at_ms)
    _print_why(settings, explanation, logs)
    _warn(problems)
    _end(problems)
    if not explanation.exists:
        raise typer.Exit(ExitCode.NOT_FOUND)


def _print_why(settings: CliSettings, explanation: "PartitionExplanation", logs: list[Path]) -> None:
    if settings.wants_json:
        print_value(settings, explanation)
        return
    if settings.output is OutputFormat.NAME:
        typer.echo(f"{explanation.topic}-{explanation.partition}")
        return
    for sentence in explanation.sentences:
        typer.echo(sentence)
    if explanation.window is not None:
        start = explanation.window[0]
        typer.echo("next: the cluster at that time:")
        where = f"--epoch {start.epoch} --node {start.node} --boot {start.boot} --seq {start.seq}"
        typer.echo(f"      controllerctl replay at {where} {' '.join(map(str, logs))}")


@app.command("at")
def state_at(
    context: typer.Context,
    logs: Logs,
    time: Annotated[str | None, typer.Option("--time", "-t", metavar="TIME", help="Time of the state.")] = None,
    seq: Annotated[
        int | None, typer.Option("--seq", min=1, help="Number of the record after which the state is shown.")
    ] = None,
    epoch: Annotated[int | None, typer.Option("--epoch", min=1, help="Controller epoch that --seq counts in.")] = None,
    node: Annotated[int | None, typer.Option("--node", help="Node whose log --seq counts in.")] = None,
    boot: Annotated[str | None, typer.Option("--boot", help="Boot of the node that --seq counts in.")] = None,
    topic: Topics = "*",
) -> None:
    """Show the cluster as the controller knew it at a time, or at the end of the log.

    Exits with status 65 if records are missing before that.

    Examples: controllerctl replay at --time 2026-01-31T03:14:00Z /var/lib/controllerd/audit ·
    controllerctl replay at --epoch 12 --seq 4711 --topic 'pay*' /var/lib/controllerd/audit -o json
    """
    from replay.command.logs import Problems
    from replay.command.state import document

    settings, problems = settings_of(context), Problems()
    moment = _travel(problems, logs, _moment(time) if time is not None else None, seq, epoch, node, boot)
    state = document(moment, topic)
    if settings.wants_json:
        print_value(settings, state)
    elif settings.output is OutputFormat.NAME:
        for row in state.partitions:
            typer.echo(f"{row.topic}-{row.partition}")
    else:
        print_facts(settings, _facts(state))
        if state.partitions:
            typer.echo()
            print_table(settings, _COLUMNS, _rows(state))
    _end(problems)


@app.command()
def diff(
    context: typer.Context,
    logs: Logs,
    at: Annotated[list[str], typer.Option("--at", metavar="TIME", help="Time; give it twice, for before and after.")],
    topic: Topics = "*",
) -> None:
    """Show the differences between two times.

    Exits with status 1 if there are any, with 65 if the log is incomplete.

    Examples: controllerctl replay diff --at 2026-01-31T03:00:00Z --at 2026-01-31T04:00:00Z /var/lib/controllerd/audit ·
    controllerctl replay diff --at 1769828400000 --at 1769832000000 --topic payments /var/lib/controllerd/audit -o json
    """
    from replay.command.logs import Problems
    from replay.command.state import differences, document

    if len(at) != 2:
        raise CliError(ExitCode.USAGE, f"diff compares two times, and {len(at)} given: write --at TIME --at TIME")
    settings, problems = settings_of(context), [Problems(), Problems()]
    moments = [_travel(each, logs, _moment(text)) for each, text in zip(problems, at, strict=True)]
    before, after = (document(moment, topic) for moment in moments)
    found = list(differences(before, after))
    if settings.wants_json:
        print_value(settings, {"differences": found})
    elif settings.output is OutputFormat.NAME:
        for one in found:
            typer.echo(one.subject)
    elif found:
        rows = ((one.subject, one.field, one.before or "-", one.after or "-") for one in found)
        print_table(settings, ("SUBJECT", "FIELD", "BEFORE", "AFTER"), rows)
    else:
        typer.echo("no differences")
    _end(*problems)
    if found:
        raise typer.Exit(ExitCode.NO)


# -- reading -----------------------------------------------------------------------------------------------------------


def _moment(text: str) -> int:
    from controllerd.record.moments import BadMoment, parse_moment

    try:
        return parse_moment(text)
    except BadMoment as error:
        raise CliError(ExitCode.USAGE, str(error)) from None


def _directories(logs: list[Path]) -> list[Path]:
    from replay.command.logs import NoLog, find_logs

    try:
        return find_logs(logs)
    except NoLog as error:
        raise CliError(ExitCode.NO_INPUT, str(error)) from None


def _travel(
    problems: "Problems",
    logs: list[Path],
    time_ms: int | None,
    seq: int | None = None,
    epoch: int | None = None,
    node: int | None = None,
    boot: str | None = None,
) -> "Moment":
    """Return the state at a moment, and print warnings about the logs. :raises CliError: there is no such moment."""
    from controllerd.record.travel import NoSuchMoment, state_at
    from replay.command.logs import read_logs

    entries = read_logs(_directories(logs), problems, time_ms if seq is None else None)
    try:
        moment = state_at(entries, time_ms=time_ms, seq=seq, epoch=epoch, node=node, boot=boot)
    except NoSuchMoment as error:
        raise CliError(ExitCode.NOT_FOUND, str(error)) from None
    finally:
        _warn(problems)
    if time_ms is not None and problems.newest_ms < time_ms:
        note(f"warning: the log ends at {_text(problems.newest_ms)}, before that time")
    return moment


def _text(ts_ms: int) -> str:
    from controllerd.record.moments import moment

    return moment(ts_ms)


def _warn(problems: "Problems") -> None:
    for sentence in problems.sentences():
        note(f"warning: {sentence}")


def _end(*problems: "Problems") -> None:
    """Exit with status 65 if a log is incomplete: the answer may be wrong, and a script must know."""
    if any(each.is_incomplete for each in problems):
        raise typer.Exit(ExitCode.DAMAGED)


# -- printing ----------------------------------------------------------------------------------------------------------

_COLUMNS: Final = ("PARTITION", "STATE", "LEADER", "EPOCH", "ISR", "REPLICAS", "ADDING", "REMOVING")


def _facts(state: "StateAt") -> Iterator[tuple[str, str]]:
    from controllerd.record.moments import moment

    led = f"controller epoch {state.controller_epoch}" if state.controller_epoch else "no controller in its term"
    yield "moment", f"{moment(state.ts_ms)}, seq {state.seq} of node {state.node}, boot {state.boot}"
    yield "cluster", f"{state.cluster}, {led}"
    live = [f"{broker.id} (shutting down)" if broker.is_shutting_down else str(broker.id) for broker in state.brokers]
    yield "brokers", ", ".join(live) or "none"
    without = [f"{row.topic}-{row.partition}" for row in state.partitions if row.leader < 0 or "Offline" in row.state]
    yield "without leader", ", ".join(without) or "none"
    for name, reason in state.deletions.items():
        yield "to be deleted", f"{name}: {reason}" if reason else name
    for path, reason in state.quarantine.items():
        yield "quarantine", f"{path}: {reason}"


def _rows(state: "StateAt") -> Iterator[tuple[str, ...]]:
    for row in state.partitions:
        yield (
            f"{row.topic}-{row.partition}",
            row.state.removesuffix("Partition"),
            str(row.leader) if row.leader >= 0 else "none",
            str(row.leader_epoch),
            *(", ".join(map(str, column)) or "-" for column in (row.isr, row.replicas, row.adding, row.removing)),
        )
