"""The steps of every verb that changes the cluster: plan, show, confirm, begin, follow to the end, exit code.

The module of a noun creates the body and the lines of the plan, and calls ``run``::

    run(settings, OperationRequest("/v1/elections", body, "preferred election"))
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4

import typer

from cli.arguments import parse_duration
from cli.columns import TASK_ITEMS, TASKS
from cli.confirmation import confirm
from cli.connect import changing_client, refuse_unfit
from cli.exit_codes import CliError, ExitCode
from cli.lists import print_columns
from cli.output import human_duration, note, print_data
from cli.settings import CliSettings, OutputFormat
from controllerd.core.text import counted

if TYPE_CHECKING:
    import msgspec

    from cli.client import ApiAnswer, Client
    from controllerd.status.schema.tasks import Task, TaskResponse

POLL_S: Final = 0.5
_ASKED_AGAIN_S: Final = 5.0
"""Seconds for which a request that may have been lost is repeated."""
_SHOWN: Final = 40
"""Rows of a plan that are shown before the question; -o wide shows all of them."""
_DRY_RUN: Final = "dry run, nothing was changed: "

Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, with progress.")]
AtMost = Annotated[
    float | None,
    typer.Option(
        "--wait-at-most", metavar="TIME", parser=parse_duration, help="Wait for the end, but at most this long: 10m."
    ),
]


def progress_line(task: "Task") -> str:
    """Return the progress as ``reassignments: 42.0%, 3m10s left: 12 of 40 partitions moved``."""
    percent = "" if task.percent is None else f" {task.percent:.1f}%"
    left = "" if task.eta_seconds is None else f", {human_duration(task.eta_seconds)} left"
    return f"{task.verb}:{percent}{left}{': ' if percent or left else ' '}{task.message}"


@dataclass(frozen=True)
class OperationRequest:
    """One verb: its path, its body, and its title in the confirmation."""

    path: str
    body: "msgspec.Struct"
    title: str
    typed: str | None = None
    """The text to type instead of a yes."""
    warnings: tuple[str, ...] = ()
    """Further lines of the confirmation."""
    shows: str = "controllerctl get tasks"
    """The command that shows the progress."""
    progress: "Callable[[Client, Task], str]" = lambda _client, task: progress_line(task)
    """Return the progress as a line."""
    when_idle: str = ""
    """The effect without any item; empty: none, so that the operation is not begun."""


def run(
    settings: CliSettings, operation: OperationRequest, *, wait: bool | None = None, at_most_s: float | None = None
) -> None:
    """Plan, show the plan, confirm, begin and follow an operation. With ``wait`` False it is only begun.

    ``wait`` None is for short operations: they are followed, until nothing changes for as long as an answer may take.

    :raises CliError: refused, declined, another cluster, unreachable, interrupted, or not ended after ``at_most_s``.
    :raises typer.Exit: with the exit code, when it did not end well.
    """
    from controllerd.status.schema.tasks import TaskResponse

    client = changing_client(settings)
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
        note(f"it continues: {operation.shows} shows the progress of {begun.content.task.id}")
    leave([begun.content.task])


def has_work(task: "Task", operation: OperationRequest) -> bool:
    """Return whether the plan changes anything. Failing items come first, and may hide the others of a long plan."""
    if not task.items_total:
        return bool(operation.when_idle)
    if any(item.state == "planned" for item in task.items):
        return True
    return task.items_total > len(task.items) and all(item.state == "failed" for item in task.items)


def begin(client: "Client", operation: OperationRequest) -> "ApiAnswer[TaskResponse]":
    """Begin an operation, again if the answer was lost: the key makes a repetition harmless."""
    from cli.client import ApiRefusal
    from controllerd.status.schema.tasks import TaskResponse

    key, began = str(uuid4()), time.monotonic()
    try:
        while True:
            try:
                return client.post(operation.path, operation.body, TaskResponse, idempotency_key=key)
            except CliError as error:
                is_lost = error.code is ExitCode.UNREACHABLE and not isinstance(error, ApiRefusal)
                if not is_lost or time.monotonic() - began > _ASKED_AGAIN_S:
                    raise
                note(f"{error}; asking again")
                time.sleep(POLL_S)
    except KeyboardInterrupt as stop:
        raise interrupted(operation) from stop


def follow(
    settings: CliSettings,
    client: "Client",
    operation: OperationRequest,
    begun: "ApiAnswer[TaskResponse]",
    at_most_s: float | None = None,
    *,
    is_brief: bool = False,
) -> "ApiAnswer[TaskResponse]":
    """Wait for the end, with progress on standard error; ``is_brief`` gives up without progress.

    :raises CliError: Ctrl-C, or ``at_most_s`` seconds have passed, or the daemon is gone; the operation continues then.
    """
    now, began, path = begun, time.monotonic(), f"/v1/tasks/{begun.content.task.id}"
    show, answered, moved = _progress_printer(settings), began, began
    try:
        while now.content.task.state == "running":
            show(operation.progress(client, now.content.task))
            if at_most_s is not None and time.monotonic() - began > at_most_s:
                message = f"not ended after {human_duration(at_most_s)}; the operation continues: {operation.shows}"
                raise CliError(ExitCode.TIMED_OUT, message)
            if is_brief and time.monotonic() - moved > settings.timeout_s:
                raise _stuck(settings, operation)
            time.sleep(POLL_S)
            answer = _ask_again(client, path, operation, is_patient=time.monotonic() - answered < settings.timeout_s)
            if answer is not None:  # the daemon was reached
                answered = time.monotonic()
                moved = moved if answer.content.task == now.content.task else answered
                now = answer
    except KeyboardInterrupt as stop:
        raise interrupted(operation) from stop
    return now


def _stuck(settings: CliSettings, operation: OperationRequest) -> CliError:
    """Return the error for a short operation that makes no progress."""
    message = (
        f"no progress within {settings.timeout_s:g} s; the operation continues: {operation.shows} shows its progress, "
        "and controllerctl get queue shows the event that is being handled; --timeout waits longer"
    )
    return CliError(ExitCode.TIMED_OUT, message)


def _ask_again(
    client: "Client", path: str, operation: OperationRequest, *, is_patient: bool
) -> "ApiAnswer[TaskResponse] | None":
    """Return the task as it is; None while the daemon is unreachable. :raises CliError: the task is unknown."""
    from controllerd.status.schema.tasks import TaskResponse

    continues = f"the operation continues under the active controller: {operation.shows}"
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


def _progress_printer(settings: CliSettings) -> "Callable[[str], None]":
    """Return a function that prints each line that differs from the last one."""
    last = [""]

    def show(line: str) -> None:
        if line != last[0] and not settings.quiet:
            note(line)
            last[0] = line

    return show


def show_plan(settings: CliSettings, task: "Task") -> None:
    """Print the rows of a plan to standard error, before the question."""
    shown = task.items if settings.output is OutputFormat.WIDE else task.items[:_SHOWN]
    for item in shown:
        note("  " + "  ".join(cell for column in TASK_ITEMS if (cell := column.show(item)) != "-"))
    if task.items_total > len(shown):
        note(f"  and {task.items_total - len(shown)} more: --dry-run -o json lists them")


def print_task(settings: CliSettings, answer: "ApiAnswer[TaskResponse]", when_idle: str = "") -> None:
    """Print the task in the chosen format; ``when_idle`` is the effect of a plan without items."""
    task = answer.content.task
    if settings.wants_json:
        print_data(settings, answer.body)
    elif settings.output is OutputFormat.NAME:
        typer.echo(TASKS.name(task))
    else:
        if task.items:
            print_columns(settings, TASK_ITEMS, task.items)
        typer.echo(f"{task.verb}: {outcome(settings, task, when_idle)}")


def outcome(settings: CliSettings, task: "Task", when_idle: str = "") -> str:
    """Return the outcome of a task, or the summary of a plan, as a sentence."""
    if task.state == "planned" and not task.items_total and when_idle:
        return f"planned; {_DRY_RUN}{when_idle}"
    if task.state == "planned" and not settings.dry_run:  # the plan had nothing to do, and it is no dry run
        refused = any(item.state == "failed" for item in task.items)
        return f"{'refused' if refused else 'nothing to do'}, nothing was changed: {summary(task)}"
    return f"{task.state}; {task.message}" if task.message else task.state


def summary(task: "Task", when_idle: str = "") -> str:
    """Return the summary of a plan, without its items."""
    if not task.items_total and when_idle:
        return when_idle
    return task.message.removeprefix(_DRY_RUN) or counted(task.items_total, "item")


def leave(tasks: "Sequence[Task]") -> None:
    """Exit with the code of the tasks. :raises typer.Exit: one failed, or its end is not known."""
    codes = {ending(task) for task in tasks}
    if codes != {ExitCode.DONE}:
        raise typer.Exit(codes.pop() if len(codes) == 1 else ExitCode.PARTIAL)


def ending(task: "Task") -> ExitCode:
    """Return the exit code of a task: by its end, by its plan, or by its failures so far."""
    failed = [item for item in task.items if item.state == "failed"]
    if task.state == "done" or (task.state in {"planned", "running"} and not failed):
        return ExitCode.DONE
    if task.state in {"partial", "running"} or (task.state == "planned" and len(failed) < task.items_total):
        return ExitCode.PARTIAL
    if failed and all(item.kafka_error == "UNKNOWN_TOPIC_OR_PARTITION" for item in failed):
        return ExitCode.NOT_FOUND
    return ExitCode.REFUSED


def interrupted(operation: OperationRequest) -> CliError:
    """Return the error for Ctrl-C after an operation was begun."""
    message = f"interrupted; the operation continues, {operation.shows} shows its progress"
    return CliError(ExitCode.INTERRUPTED, message)
