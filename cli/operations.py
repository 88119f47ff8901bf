"""What every verb that changes the cluster does: plan, show, ask, do, follow until it ended, and a telling exit code.

A noun's module makes the body and the lines of the plan, and calls ``run``::

    run(settings, Operation("/v1/elections", body, "preferred election"))
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4

import typer

from cli.asking import confirm, refuse_unfit
from cli.exit_codes import CliError, ExitCode
from cli.listing import print_columns
from cli.lists.work import TASK_ITEMS, TASKS
from cli.output import note, print_data
from cli.settings import OutputFormat, Settings, parse_duration
from cli.units import human_duration
from controllerd.core.counted import counted

if TYPE_CHECKING:
    import msgspec

    from cli.client import Answer, Client
    from controllerd.status.schema.tasks import Task, TaskResponse

POLL_S: Final = 0.5
_ASKED_AGAIN_S: Final = 5.0
"""So long a request that may have been lost on its way is repeated."""
_SHOWN: Final = 40
"""Rows of a plan that are shown before the question; -o wide shows all of them."""
_DRY_RUN: Final = "dry run, nothing was changed: "

Wait = Annotated[bool, typer.Option("--wait", help="Follow it to its end, with progress.")]
AtMost = Annotated[
    float | None,
    typer.Option("--wait-at-most", metavar="TIME", parser=parse_duration, help="The same for at most so long: 10m."),
]


def progress_line(task: "Task") -> str:
    """``reassignments: 42.0%, 3m10s left: 12 of 40 partitions moved``."""
    percent = "" if task.percent is None else f" {task.percent:.1f}%"
    left = "" if task.eta_seconds is None else f", {human_duration(task.eta_seconds)} left"
    return f"{task.verb}:{percent}{left}{': ' if percent or left else ' '}{task.message}"


@dataclass(frozen=True)
class Operation:
    """One verb: where it is posted, its body, and what it is called before people are asked."""

    path: str
    body: "msgspec.Struct"
    title: str
    typed: str | None = None
    """What must be typed instead of a yes."""
    warnings: tuple[str, ...] = ()
    """What else must be known before a yes."""
    shows: str = "controllerctl get tasks"
    """The command that shows how far it is."""
    progress: "Callable[[Client, Task], str]" = lambda _client, task: progress_line(task)
    """How far it is, as a line."""
    when_idle: str = ""
    """What it does though no item is concerned; empty: nothing, so that it is not begun."""


def run(settings: Settings, operation: Operation, *, wait: bool | None = None, at_most_s: float | None = None) -> None:
    """Plan it, show the plan, ask, do it and follow it. Without ``wait`` it is only begun.

    ``wait`` None is for what takes a moment: it is followed, and given up when nothing moves for as long as an answer
    may take.

    :raises CliError: refused, declined, another cluster, unreachable, interrupted, or not ended after ``at_most_s``.
    :raises typer.Exit: with the exit code, when it did not end well.
    """
    from controllerd.status.schema.tasks import TaskResponse

    client = settings.changing_client()
    refuse_unfit(settings, client.status().content)
    planned = client.post(operation.path, operation.body, TaskResponse, {"dryRun": True})
    task = planned.content.task
    if settings.dry_run or not has_work(task, operation):
        print_task(settings, planned, operation.when_idle)
        leave([task])
        return
    show_plan(settings, task)
    confirm(settings, operation.title, *operation.warnings, summary(task, operation.when_idle), typed=operation.typed)
    begun = begin(client, operation)
    if wait is not False or at_most_s is not None:
        begun = follow(settings, client, operation, begun, at_most_s, is_brief=wait is None)
    print_task(settings, begun)
    if begun.content.task.state == "running":
        note(f"it continues: {operation.shows} shows how far {begun.content.task.id} is")
    leave([begun.content.task])


def has_work(task: "Task", operation: Operation) -> bool:
    """Whether anything would be done; of very many items those that fail are shown first, and may hide the rest."""
    if not task.items_total:
        return bool(operation.when_idle)
    if any(item.state == "planned" for item in task.items):
        return True
    return task.items_total > len(task.items) and all(item.state == "failed" for item in task.items)


def begin(client: "Client", operation: Operation) -> "Answer[TaskResponse]":
    """Ask for it, again if the answer was lost: the key makes a repetition harmless."""
    from cli.client import Refusal
    from controllerd.status.schema.tasks import TaskResponse

    key, began = str(uuid4()), time.monotonic()
    try:
        while True:
            try:
                return client.post(operation.path, operation.body, TaskResponse, idempotency_key=key)
            except CliError as error:
                is_lost = error.code is ExitCode.UNREACHABLE and not isinstance(error, Refusal)
                if not is_lost or time.monotonic() - began > _ASKED_AGAIN_S:
                    raise
                note(f"{error}; asking again")
                time.sleep(POLL_S)
    except KeyboardInterrupt as stop:
        raise interrupted(operation) from stop


def follow(
    settings: Settings,
    client: "Client",
    operation: Operation,
    begun: "Answer[TaskResponse]",
    at_most_s: float | None = None,
    *,
    is_brief: bool = False,
) -> "Answer[TaskResponse]":
    """Wait for the end with progress beside the data; ``is_brief``: not for what does not move at all.

    :raises CliError: Ctrl-C, or ``at_most_s`` seconds have passed, or the daemon is gone; the operation continues then.
    """
    now, began, path = begun, time.monotonic(), f"/v1/tasks/{begun.content.task.id}"
    tell, heard, moved = _teller(settings), began, began
    try:
        while now.content.task.state == "running":
            tell(operation.progress(client, now.content.task))
            if at_most_s is not None and time.monotonic() - began > at_most_s:
                message = f"not ended after {human_duration(at_most_s)}; the operation continues: {operation.shows}"
                raise CliError(ExitCode.TIMED_OUT, message)
            if is_brief and time.monotonic() - moved > settings.timeout_s:
                raise _stuck(settings, operation)
            time.sleep(POLL_S)
            answer = _ask_again(client, path, operation, is_patient=time.monotonic() - heard < settings.timeout_s)
            if answer is not None:
                heard = time.monotonic()
                moved = moved if answer.content.task == now.content.task else heard
                now = answer
    except KeyboardInterrupt as stop:
        raise interrupted(operation) from stop
    return now


def _stuck(settings: Settings, operation: Operation) -> CliError:
    """What it means that an operation which takes a moment does not move."""
    message = (
        f"no progress within {settings.timeout_s:g} s; the operation continues: {operation.shows} shows how far it is, "
        "controllerctl get queue what the controller is at; --timeout waits longer"
    )
    return CliError(ExitCode.TIMED_OUT, message)


def _ask_again(client: "Client", path: str, operation: Operation, *, is_patient: bool) -> "Answer[TaskResponse] | None":
    """The task as it is; None while the daemon is away and we are patient. :raises CliError: nobody knows it."""
    from controllerd.status.schema.tasks import TaskResponse

    continues = f"what was begun continues under whoever leads: {operation.shows}"
    try:
        return client.get(path, TaskResponse)
    except CliError as error:
        if error.code is ExitCode.NOT_FOUND:
            raise CliError(ExitCode.REFUSED, f"the daemon was started again meanwhile; {continues}") from error
        if error.code not in {ExitCode.UNREACHABLE, ExitCode.TIMED_OUT}:
            raise
        if not is_patient:
            raise CliError(error.code, f"{error}; {continues}") from error
        note(f"{error}; asking again")
        return None


def _teller(settings: Settings) -> "Callable[[str], None]":
    """Says how far it is: whenever that changed."""
    last = [""]

    def tell(line: str) -> None:
        if line != last[0] and not settings.quiet:
            note(line)
            last[0] = line

    return tell


def show_plan(settings: Settings, task: "Task") -> None:
    """The rows of a plan, beside the data: to standard error, before the question."""
    shown = task.items if settings.output is OutputFormat.WIDE else task.items[:_SHOWN]
    for item in shown:
        note("  " + "  ".join(cell for column in TASK_ITEMS if (cell := column.show(item)) != "-"))
    if task.items_total > len(shown):
        note(f"  and {task.items_total - len(shown)} more: --dry-run -o json lists them")


def print_task(settings: Settings, answer: "Answer[TaskResponse]", when_idle: str = "") -> None:
    """What became of it, in the format that was asked for; ``when_idle``: what a plan without items would do."""
    task = answer.content.task
    if settings.wants_json:
        print_data(settings, answer.body)
    elif settings.output is OutputFormat.NAME:
        typer.echo(TASKS.name(task))
    else:
        if task.items:
            print_columns(settings, TASK_ITEMS, task.items)
        typer.echo(f"{task.verb}: {outcome(settings, task, when_idle)}")


def outcome(settings: Settings, task: "Task", when_idle: str = "") -> str:
    """How it ended, or what the plan says, as a sentence."""
    if task.state == "planned" and not task.items_total and when_idle:
        return f"planned; {_DRY_RUN}{when_idle}"
    if task.state == "planned" and not settings.dry_run:  # the plan had nothing to do: nobody asked for a dry run
        refused = any(item.state == "failed" for item in task.items)
        return f"{'refused' if refused else 'nothing to do'}, nothing was changed: {summary(task)}"
    return f"{task.state}; {task.message}" if task.message else task.state


def summary(task: "Task", when_idle: str = "") -> str:
    """What a plan comes to, without its items."""
    if not task.items_total and when_idle:
        return when_idle
    return task.message.removeprefix(_DRY_RUN) or counted(task.items_total, "item")


def leave(tasks: "Sequence[Task]") -> None:
    """:raises typer.Exit: something failed, or nobody knows how it ended."""
    codes = {ending(task) for task in tasks}
    if codes != {ExitCode.DONE}:
        raise typer.Exit(codes.pop() if len(codes) == 1 else ExitCode.PARTIAL)


def ending(task: "Task") -> ExitCode:
    """The exit code that says how a task ended, would end by its plan, or goes on with what has failed by now."""
    failed = [item for item in task.items if item.state == "failed"]
    if task.state == "done" or (task.state in {"planned", "running"} and not failed):
        return ExitCode.DONE
    if task.state in {"partial", "running"} or (task.state == "planned" and len(failed) < task.items_total):
        return ExitCode.PARTIAL
    if failed and all(item.kafka_error == "UNKNOWN_TOPIC_OR_PARTITION" for item in failed):
        return ExitCode.NOT_FOUND
    return ExitCode.REFUSED


def interrupted(operation: Operation) -> CliError:
    """What Ctrl-C means once something was begun."""
    message = f"interrupted; the operation continues, {operation.shows} shows how far it is"
    return CliError(ExitCode.INTERRUPTED, message)
