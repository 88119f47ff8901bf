"""``controllerctl diff``: ZooKeeper, the controller's memory and brokers' metadata; or two moments of an audit log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer

from cli import replay
from cli.client import ApiAnswer, Client
from cli.connect import client_of
from cli.exit_codes import CliError, ExitCode
from cli.lists import FetchedList, ListDefinition, TableColumn, print_found
from cli.output import dash, human_duration, ids, is_watched, note
from cli.settings import CliSettings, settings_of
from controllerd.core.text import counted
from controllerd.status.schema.work import Comparing, DifferenceList

if TYPE_CHECKING:
    from controllerd.status.schema.work import Difference


POLL_S: Final = 0.25
_CONTINUES: Final = "the comparison continues in the daemon, and changes nothing: controllerctl diff joins it"

_JOINED_S: Final = 1.0
"""A comparison of this age at the first answer was begun by another client."""

ShowProgress = Callable[[Comparing], None]


class _ListType(msgspec.Struct):
    """The kind of an answer: a task, or a result."""

    kind: Literal["Comparing", "DifferenceList"]


def compared(settings: CliSettings, path: str, *, brokers: bool) -> ApiAnswer[DifferenceList]:
    """Return the comparison of the daemon; ``path`` is the path of its API.

    :raises CliError: there is no answer within the timeout, or Ctrl-C was pressed.
    """
    timeout, client = _TimeOut(settings.timeout_s), client_of(settings)
    answer = client.get(path, _ListType, {"brokers": "true" if brokers else "false"})
    if answer.content.kind == "Comparing":
        _note_joining(msgspec.json.decode(answer.body, type=Comparing))
        try:
            with _showing_progress(settings) as show:
                answer = _follow(client, path, answer, show, timeout)
        except KeyboardInterrupt as stop:
            raise CliError(ExitCode.INTERRUPTED, f"interrupted; {_CONTINUES}") from stop
    return ApiAnswer(answer.body, msgspec.json.decode(answer.body, type=DifferenceList))


def _note_joining(first: Comparing) -> None:
    """Note that the comparison may list differences that ended since it began."""
    if first.elapsed_s > _JOINED_S:
        began = human_duration(first.elapsed_s)
        note(f"joining a comparison that began {began} ago: repeat it for what has changed since")


def _follow(
    client: Client, path: str, answer: ApiAnswer[_ListType], show: ShowProgress, timeout: "_TimeOut"
) -> ApiAnswer[_ListType]:
    while answer.content.kind == "Comparing":
        now = msgspec.json.decode(answer.body, type=Comparing)
        show(now)
        timeout.check()
        time.sleep(POLL_S)
        answer = _ask_again(client, f"{path}/{now.id}")
    return answer


def _ask_again(client: Client, path: str) -> ApiAnswer[_ListType]:
    try:
        return client.get(path, _ListType)
    except CliError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
        message = (
            "the daemon does not know the comparison any more: it was started again, another one answers, "
            "or it is long ago; repeat it"
        )
        raise CliError(ExitCode.UNREACHABLE, message) from error


class _TimeOut:
    """A limit on the whole wait, from now on."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s

    def check(self) -> None:
        """:raises CliError: it took longer."""
        if time.monotonic() > self._until:
            message = f"not compared within {self._timeout_s:g} s; {_CONTINUES}; --timeout waits longer"
            raise CliError(ExitCode.TIMED_OUT, message)


@contextmanager
def _showing_progress(settings: CliSettings) -> Iterator[ShowProgress]:
    """Show the progress: a bar on a terminal; elsewhere one line when it takes long."""
    if settings.quiet or not is_watched():
        note("comparing; of 100,000 partitions it takes some ten seconds")
        yield lambda _now: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[left]}"))
    console = Console(stderr=True, no_color=not settings.color)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("comparing", total=None, left="")
        yield lambda now: progress.update(
            task, description=now.stage, total=100, completed=now.percent or 0, left=remaining(now)
        )


def remaining(now: Comparing) -> str:
    """Return the progress as ``42%, 5.1 s left``, or the time that has passed if no more is known."""
    if now.percent is None:
        return human_duration(now.elapsed_s)
    left = "" if now.eta_seconds is None else f", {human_duration(now.eta_seconds)} left"
    return f"{now.percent:.0f}%{left}"


_DIFFERENCES: Final["ListDefinition[Difference]"] = ListDefinition(
    "/v1/diff",
    (
        TableColumn("SUBJECT", lambda item: item.subject),
        TableColumn("FIELD", lambda item: item.field),
        TableColumn("ZOOKEEPER", lambda item: dash(item.zookeeper)),
        TableColumn("MEMORY", lambda item: dash(item.memory)),
        TableColumn("BROKER", lambda item: dash(item.broker)),
    ),
    lambda item: item.subject,
    "no differences",
)


def diff(
    context: typer.Context,
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG]...", help="Directories of audit logs, for --at.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="TIME", help="Time of a comparison from audit logs; give it twice."),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", metavar="GLOB", help="Only topics that match, for --at.")] = "*",
    brokers: Annotated[bool, typer.Option(help="Ask brokers for their metadata as well.")] = True,
) -> None:
    """Compare ZooKeeper with the controller and with the metadata of brokers. Exits with status 1 if they differ.

    Differences are checked again after two seconds, so that changes in progress do not count. Of 100,000
    partitions it takes some ten seconds, and --timeout says how long to wait. With --at TIME twice no daemon is asked:
    two moments of audit logs are compared, as `controllerctl replay diff` does.

    Examples: controllerctl diff · controllerctl diff --at 2026-01-31T03:00:00Z --at 2026-01-31T04:00:00Z
    /var/lib/controllerd/prod/audit
    """
    if at or logs:
        if not (at and logs):
            message = (
                "two moments of audit logs are compared by --at TIME --at TIME LOG; without both the daemon is asked"
            )
            raise CliError(ExitCode.USAGE, message)
        replay.diff(context, logs, at, topic)
        return

    settings = settings_of(context)
    answer = compared(settings, _DIFFERENCES.path, brokers=brokers)
    found = answer.content
    print_found(settings, _DIFFERENCES, FetchedList(found.items, answer.body))
    for text in found.notes:
        note(f"note: {text}")
    note(f"compared: {counted(found.compared, 'partition')}; metadata of brokers: {ids(found.brokers)}")
    if found.items:
        raise typer.Exit(ExitCode.NO)
