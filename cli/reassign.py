"""``controllerctl reassign``: plan, apply, follow and cancel the moves of replicas."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import completion
from cli.arguments import parse_bytes, parse_partition
from cli.columns import REASSIGNMENTS
from cli.connect import client_of, refuse_without_cluster
from cli.exit_codes import CliError, ExitCode
from cli.lists import FetchedList, ListDefinition, TableColumn, fetch_list, print_found
from cli.operations import POLL_S, AtMost, OperationRequest, Wait, run
from cli.output import human_bytes, human_duration, human_rate, ids, note
from cli.plan_files import read_plan, rollback_of, write_plan
from cli.settings import CliSettings, settings_of
from cli.split_operations import in_parts, refuse_without_wait, run_parts
from controllerd.core.text import counted

if TYPE_CHECKING:
    from cli.client import ApiAnswer, Client, Query
    from controllerd.planning.plans import Plan, PlannedMove
    from controllerd.status.schema.tasks import Task
    from controllerd.status.schema.verbs import Move
    from controllerd.status.schema.work import ReassignmentItem, ReassignmentList

app: Final = typer.Typer(
    help="Move replicas between brokers: plan, apply, follow, cancel.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_PATH: Final = "/v1/reassignments"
_SHOWS: Final = "controllerctl reassign status"
_STANDARD_OUTPUT: Final = Path("-")
_MOST_MOVES: Final = 500
"""Moves whose progress is requested; the bytes of further moves are not summed up."""


# -- plan --------------------------------------------------------------------------------------------------------------

_MOVES: Final["ListDefinition[PlannedMove]"] = ListDefinition(
    f"{_PATH}:plan",
    (
        TableColumn("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        TableColumn("BEFORE", lambda item: ids(item.before)),
        TableColumn("AFTER", lambda item: ids(item.after)),
        TableColumn("LEADER", lambda item: "stays" if item.before[:1] == item.after[:1] else "moves"),
        TableColumn("BYTES", lambda item: "-" if item.bytes is None else human_bytes(item.bytes), right=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "nothing to move",
)


@app.command()
def plan(
    context: typer.Context,
    topics: Annotated[
        str | None,
        typer.Option("--topics", metavar="GLOBS", help="Topics to move, as globs by commas; all topics otherwise."),
    ] = None,
    leaving: Annotated[
        str | None, typer.Option("--from", metavar="IDS", help="Brokers to move replicas away from: 1,2.")
    ] = None,
    going: Annotated[
        str | None,
        typer.Option("--to", metavar="IDS", help="Brokers to move replicas to; any other live one otherwise."),
    ] = None,
    factor: Annotated[
        int | None,
        typer.Option("--rf", "--replication-factor", metavar="NUMBER", min=1, help="Replicas per partition."),
    ] = None,
    rack_aware: Annotated[bool, typer.Option(help="Spread the replicas of a partition over racks.")] = True,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="File for the plan; the rollback is written beside it."),
    ] = None,
) -> None:
    """Plan the moves of replicas, as few as possible and spread evenly; nothing is moved.

    With -f plan.json the plan is written there, and the rollback to plan.rollback.json: both as
    kafka-reassign-partitions reads them. Existing files are not overwritten.

    Examples: controllerctl reassign plan --from 3 -f plan.json ·
    controllerctl reassign plan --topics 'pay*' --rf 3 --to 1,2,4
    """
    from controllerd.planning.plans import Plan, ReassignmentPlanRequest

    if file == _STANDARD_OUTPUT:
        message = "a plan has a second file, the rollback, so -f requires a name; -o json prints both"
        raise CliError(ExitCode.USAGE, message)
    settings = settings_of(context)
    request = ReassignmentPlanRequest(
        topics=topics.split(",") if topics else [],
        from_brokers=_brokers("--from", leaving),
        to_brokers=_brokers("--to", going),
        replication_factor=factor,
        rack_aware=rack_aware,
    )
    found = client_of(settings).post(_MOVES.path, request, Plan)
    _note_summary(found.content)
    if file is not None and found.content.moves and not settings.dry_run:
        _write(file, found.content)
    print_moves(settings, found)


def print_moves(settings: CliSettings, found: "ApiAnswer[Plan]") -> None:
    """Print the moves in the chosen format."""
    from cli.output import print_data

    if settings.wants_json:
        print_data(settings, found.body)
    else:
        print_found(settings, _MOVES, FetchedList(found.content.moves, found.body))


def _note_summary(plan: "Plan") -> None:
    size = "bytes not known" if plan.bytes is None else human_bytes(plan.bytes)
    if plan.moves:
        moved = f"{counted(plan.replicas_moved, 'replica')} to copy ({size}), {counted(plan.leaders_moved, 'leader')}"
        note(f"{counted(len(plan.moves), 'partition')} to move: {moved} to change")
    for text in plan.notes:
        note(f"note: {text}")


def _write(file: Path, plan: "Plan") -> None:
    back = rollback_of(file)
    for path in (file, back):
        if path.exists():
            message = f"{path} exists and may be the rollback of another plan: name another file, or remove it"
            raise CliError(ExitCode.USAGE, message)
    write_plan(back, ((move.topic, move.partition, move.before) for move in plan.moves))
    write_plan(file, ((move.topic, move.partition, move.after) for move in plan.moves))
    note(f"written: {file}, and the rollback: {back}; next: controllerctl reassign apply -f {file}")


def _brokers(option: str, text: str | None) -> list[int]:
    """Return the ids in a list. :raises CliError: it has something else."""
    try:
        return [int(one) for one in text.split(",")] if text else []
    except ValueError:
        raise CliError(ExitCode.USAGE, f"{option} must be ids of brokers by commas, as 1,2,3, not {text!r}") from None


# -- apply -------------------------------------------------------------------------------------------------------------


def _rate(text: str) -> int:
    try:
        rate = parse_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if rate < 1:
        raise typer.BadParameter("a throttle of 0 would move nothing")
    return rate


@app.command()
def apply(
    context: typer.Context,
    file: Annotated[str, typer.Option("-f", "--file", metavar="FILE", help="File of the plan; - for standard input.")],
    throttle: Annotated[
        int | None,
        typer.Option(metavar="RATE", parser=_rate, help="Throttle in bytes per second for each broker: 50MB."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Maximum number of partitions that move at a time.")
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Keep reassignments in progress beside these.")
    ] = False,
    wait: Wait = False,
    wait_at_most: AtMost = None,
) -> None:
    """Apply a plan: show the changes, ask for confirmation, and with --wait follow the moves.

    The plan is a file for kafka-reassign-partitions. The controller removes the throttle when all moves have ended or
    were cancelled. Moves continue when this command ends, and after a failover. A plan of more than a mebibyte (some
    15,000 partitions) is applied in parts: all at once, or with --batch and --wait one after the other.

    Examples: controllerctl reassign apply -f plan.json --throttle 50MB --wait ·
    controllerctl reassign apply -f plan.rollback.json --batch 20 --dry-run
    """
    settings, moves = settings_of(context), read_plan(file)
    operations = _operations(settings, moves, throttle=throttle, batch=batch, additional=additional)
    if len(operations) == 1:
        run(settings, operations[0], wait=wait, at_most_s=wait_at_most)
        return
    waits, in_turn = wait or wait_at_most is not None, batch is not None
    if in_turn and not settings.dry_run:
        refuse_without_wait(operations, waits=waits)
    check = (lambda _client: None) if additional else (lambda client: _refuse_beside_others(client, moves))
    run_parts(settings, operations, check, wait=waits, is_in_turn=in_turn, at_most_s=wait_at_most)


def _operations(
    settings: CliSettings, moves: "list[Move]", *, throttle: int | None, batch: int | None, additional: bool
) -> list[OperationRequest]:
    """Return one operation per part of the plan; with several parts, each is additional to the others."""
    from controllerd.status.schema.verbs import ReassignmentRequest

    parts = in_parts(moves)
    return [
        OperationRequest(
            _PATH,
            ReassignmentRequest(
                partitions=part,
                throttle_bytes_per_s=throttle,
                batch=batch,
                additional=additional or len(parts) > 1,
                reason=settings.reason,
            ),
            f"reassign {counted(len(moves), 'partition')}",
            warnings=_manner(throttle, batch),
            shows=_SHOWS,
            progress=_progress_of(part),
        )
        for part in parts
    ]


def _refuse_beside_others(client: "Client", moves: "list[Move]") -> None:
    """Check what a daemon checks for a whole plan. :raises CliError: other partitions move."""
    from controllerd.status.schema.work import ReassignmentList

    ours = {(move.topic, move.partition) for move in moves}
    moving = fetch_list(client, REASSIGNMENTS, ReassignmentList).items
    others = [f"{item.topic}-{item.partition}" for item in moving if (item.topic, item.partition) not in ours]
    if others:
        message = (
            f"{counted(len(others), 'other partition')} {'is' if len(others) == 1 else 'are'} being reassigned, "
            f"such as {others[0]}: add --additional to keep that beside these, wait, or cancel it; nothing was changed"
        )
        raise CliError(ExitCode.REFUSED, message)


def _manner(throttle: int | None, batch: int | None) -> tuple[str, ...]:
    """Return the line of the confirmation about the throttle and the batches."""
    bound = "without a throttle" if throttle is None else f"at most {throttle:,} bytes/s for each broker"
    return (f"{bound}, {'all at once' if batch is None else f'{batch} at a time'}",)


def _progress_of(moves: "list[Move]") -> "Callable[[Client, Task], str]":
    ours = {(move.topic, move.partition) for move in moves}

    def progress(client: "Client", task: "Task") -> str:
        items = _moving(client).items
        return progress_line(task, [item for item in items if (item.topic, item.partition) in ours])

    return progress


def _moving(client: "Client", query: "Query | None" = None) -> "ReassignmentList":
    from controllerd.status.schema.work import ReassignmentList

    return client.get(_PATH, ReassignmentList, {**(query or {}), "limit": _MOST_MOVES}).content


def progress_line(task: "Task", moving: "list[ReassignmentItem]") -> str:
    """Return ``reassignments: 42.0%, 12 of 40 partitions, 5.0 GiB to copy, 48 MiB/s, 1m47s left``, if known."""
    total, ended = task.items_total, round(task.items_total * (task.percent or 0.0) / 100)
    percents = [item.percent for item in moving if item.percent is not None]
    is_known = len(percents) == len(moving)
    is_all = ended + len(moving) >= total  # every partition of the task has ended or is among ``moving``
    share = min(100.0, (100 * ended + sum(percents)) / total) if is_known and total else task.percent or 0.0
    parts = [f"{share:.1f}%", f"{ended} of {counted(total, 'partition')}"]
    return f"{task.verb}: {', '.join([*parts, *speed(moving, is_all=is_all)])}"


def speed(moving: "list[ReassignmentItem]", *, is_all: bool) -> list[str]:
    """Return bytes left, rate, time left and the main blocker; ``is_all``: no other partition moves."""
    left = [item.bytes_left for item in moving if item.bytes_left is not None]
    etas = [item.eta_seconds for item in moving if item.eta_seconds is not None]
    rate = sum(item.bytes_per_s or 0.0 for item in moving)
    parts = [f"{human_bytes(sum(left))} to copy"] if left and len(left) == len(moving) else []
    parts += [human_rate(rate)] if rate else []
    parts += [f"{human_duration(max(etas))} left"] if etas and len(etas) == len(moving) and is_all else []
    blockers = Counter(item.blocker for item in moving if item.blocker)
    return parts + [text for text, _ in blockers.most_common(1)]


# -- cancel and status -------------------------------------------------------------------------------------------------


@app.command()
def cancel(
    context: typer.Context,
    partitions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC-PARTITION]...", autocompletion=completion.partitions, help="Partitions, as in payments-7."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every reassignment in progress.")] = False,
) -> None:
    """Cancel reassignments: show the assignments that return, and ask for confirmation. Throttles end with them.

    Examples: controllerctl reassign cancel payments-7 payments-8 ·
    controllerctl reassign cancel --all --reason "the disks are full"
    """
    from controllerd.status.schema.verbs import CancelRequest
    from controllerd.status.schema.verbs import PartitionName as Named

    settings, names = settings_of(context), [parse_partition(text) for text in partitions or ()]
    if bool(names) == every:
        raise CliError(ExitCode.USAGE, "name partitions, as payments-7, or give --all; not both")
    named = [Named(topic=name.topic, partition=name.number) for name in names]
    body = CancelRequest(partitions=named, all=every, reason=settings.reason)
    what = "every reassignment" if every else f"the reassignment of {counted(len(named), 'partition')}"
    run(settings, OperationRequest(f"{_PATH}:cancel", body, f"cancel {what}", shows=_SHOWS))


@app.command()
def status(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="GLOB", autocompletion=completion.topics, help="Only topics that match."),
    ] = None,
    wait: Wait = False,
    wait_at_most: AtMost = None,
) -> None:
    """Show reassignments in progress. Exits with status 6 if there are any, with 0 if there are none.

    Examples: controllerctl reassign status -o wide · controllerctl reassign status --topic 'pay*' --wait
    """
    from controllerd.status.schema.work import ReassignmentList

    settings = settings_of(context)
    client, query = client_of(settings), {"topic": topic}
    refuse_without_cluster(client)
    if wait or wait_at_most is not None:
        _wait(client, query, wait_at_most)
    found = fetch_list(client, REASSIGNMENTS, ReassignmentList, query)
    print_found(settings, REASSIGNMENTS, found)
    if found.items:
        raise typer.Exit(ExitCode.IN_PROGRESS)


def _wait(client: "Client", query: "Query", at_most_s: float | None) -> None:
    """Wait until no partition moves. :raises CliError: that takes longer. :raises typer.Exit: Ctrl-C."""
    began, said = time.monotonic(), ""
    try:
        while (now := _moving(client, query)).total:
            is_all = now.total == len(now.items)
            line = ", ".join([f"{counted(now.total, 'partition')} moving", *speed(now.items, is_all=is_all)])
            if line != said:
                note(line)
                said = line
            if at_most_s is not None and time.monotonic() - began > at_most_s:
                raise CliError(
                    ExitCode.TIMED_OUT, f"still moving after {human_duration(at_most_s)}; it continues: {_SHOWS}"
                )
            time.sleep(POLL_S)
    except KeyboardInterrupt as stop:
        raise CliError(
            ExitCode.INTERRUPTED, f"interrupted; the moves continue, {_SHOWS} shows their progress"
        ) from stop
