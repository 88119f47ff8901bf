"""Operations that are too large for one request: the parts of one plan, confirmed once and applied one by one."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from cli.columns import TASK_ITEMS, TASKS
from cli.confirmation import confirm
from cli.connect import changing_client, refuse_unfit
from cli.exit_codes import CliError, ExitCode
from cli.lists import print_columns
from cli.operations import OperationRequest, begin, follow, has_work, leave, outcome, show_plan, summary
from cli.output import note, print_value
from cli.settings import CliSettings, OutputFormat

if TYPE_CHECKING:
    import msgspec

    from cli.client import ApiAnswer, Client
    from controllerd.status.schema.tasks import Task, TaskResponse

PART_BYTES: Final = 1_000_000
"""Bytes of items per request: a daemon refuses a request of more than a mebibyte."""
Item = TypeVar("Item", bound="msgspec.Struct")


def in_parts(items: Sequence[Item]) -> list[list[Item]]:
    """Return the items in as many parts as they need requests."""
    import msgspec

    parts: list[list[Item]] = [[]]
    size = 0
    for item in items:
        needed = len(msgspec.json.encode(item)) + 1
        if parts[-1] and size + needed > PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(item)
        size += needed
    return parts


def run_parts(
    settings: CliSettings,
    parts: Sequence[OperationRequest],
    check: "Callable[[Client], None]",
    *,
    wait: bool,
    is_in_turn: bool,
    at_most_s: float | None = None,
) -> None:
    """Plan all parts, show the plan, ask once, and begin one after the other; ``check`` may refuse before that.

    With ``is_in_turn``, each part ends before the next begins. Raises as ``cli.operations.run`` does.
    """
    client = changing_client(settings)
    refuse_unfit(settings, client.status().content)
    check(client)
    planned = list(_planned(client, parts))
    tasks = [answer.content.task for answer in planned]
    if settings.dry_run or not any(map(has_work, tasks, parts)):
        print_tasks(settings, planned)
        leave(tasks)
        return
    show_plan(settings, tasks[0])
    sums = [f"part {number} of {len(parts)}: {summary(task)}" for number, task in enumerate(tasks, 1)]
    confirm(settings, parts[0].title, *parts[0].warnings, *sums)
    ended = _apply(settings, client, parts, is_in_turn=is_in_turn, at_most_s=at_most_s)
    if wait and not is_in_turn:
        ended = [follow(settings, client, part, one, at_most_s) for part, one in zip(parts, ended, strict=True)]
    print_tasks(settings, ended)
    if any(answer.content.task.state == "running" for answer in ended):
        note(f"it continues: {parts[0].shows} shows the progress")
    leave([answer.content.task for answer in ended])


def _planned(client: "Client", parts: Sequence[OperationRequest]) -> "Iterator[ApiAnswer[TaskResponse]]":
    from controllerd.status.schema.tasks import TaskResponse

    for number, part in enumerate(parts, 1):
        note(f"planning part {number} of {len(parts)}")
        yield client.post(part.path, part.body, TaskResponse, {"dryRun": True})


def _apply(
    settings: CliSettings,
    client: "Client",
    parts: Sequence[OperationRequest],
    *,
    is_in_turn: bool,
    at_most_s: float | None,
) -> "list[ApiAnswer[TaskResponse]]":
    """Begin the parts. :raises CliError: one was not begun or not followed; the message says what to repeat."""
    begun: list[ApiAnswer[TaskResponse]] = []
    for number, part in enumerate(parts, 1):
        note(f"part {number} of {len(parts)}")
        try:
            answer = begin(client, part)
            begun.append(follow(settings, client, part, answer, at_most_s) if is_in_turn else answer)
        except CliError as error:
            left = f"; parts {number + 1} to {len(parts)} were not begun" if number < len(parts) else ""
            again = "repeat the same command for the rest; what has moved is skipped"
            raise CliError(error.code, f"part {number} of {len(parts)}: {error}{left}; {again}") from error
    return begun


def print_tasks(settings: CliSettings, answers: "Sequence[ApiAnswer[TaskResponse]]") -> None:
    """Print the tasks in the chosen format, as ``get tasks`` prints them."""
    from controllerd.status.schema.tasks import TaskList

    tasks = [answer.content.task for answer in answers]
    if settings.output is OutputFormat.JSONL:
        for task in tasks:
            print_value(settings, task)
    elif settings.wants_json:
        print_value(settings, TaskList(meta=answers[-1].content.meta, items=tasks))
    elif settings.output is OutputFormat.NAME:
        for task in tasks:
            typer.echo(TASKS.name(task))
    else:
        _print_table(settings, tasks)


def _print_table(settings: CliSettings, tasks: "Sequence[Task]") -> None:
    if items := [item for task in tasks for item in task.items]:
        print_columns(settings, TASK_ITEMS, items)
    for number, task in enumerate(tasks, 1):
        typer.echo(f"{task.verb}, part {number} of {len(tasks)}: {outcome(settings, task)}")


def refuse_without_wait(parts: Sequence[object], *, waits: bool) -> None:
    """Refuse parts in turn without a wait. :raises CliError: no process would begin the next part."""
    if not waits:
        message = (
            f"so large a plan goes to the daemon in {len(parts)} parts, and --batch has to hold for all of them "
            "together: add --wait, and the next part begins when the one before has ended; or leave --batch out"
        )
        raise CliError(ExitCode.USAGE, message)
