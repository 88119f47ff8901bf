"""Following a comparison to its end, with a bar on a terminal: the daemon goes on with it whoever waits."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

import msgspec

from cli.client import Answer, Client
from cli.exit_codes import CliError, ExitCode
from cli.output import is_watched, note
from cli.settings import Settings
from cli.units import human_duration
from controllerd.status.schema.work import Comparing, DifferenceList

POLL_S: Final = 0.25
_CONTINUES: Final = "the comparison goes on in the daemon, and changes nothing: controllerctl diff joins it"

_JOINED_S: Final = 1.0
"""A comparison that is so old at the first answer was begun for somebody else."""

Tell = Callable[[Comparing], None]


class _Kind(msgspec.Struct):
    """Which of both an answer is."""

    kind: Literal["Comparing", "DifferenceList"]


def compared(settings: Settings, path: str, *, brokers: bool) -> Answer[DifferenceList]:
    """What the daemon finds; ``path`` is where it is asked.

    :raises CliError: it does not say, or not within the time-out, or Ctrl-C.
    """
    timeout, client = _TimeOut(settings.timeout_s), settings.client()
    answer = client.get(path, _Kind, {"brokers": "true" if brokers else "false"})
    if answer.content.kind == "Comparing":
        _tell_of_joining(msgspec.json.decode(answer.body, type=Comparing))
        try:
            with _telling(settings) as tell:
                answer = _follow(client, path, answer, tell, timeout)
        except KeyboardInterrupt as stop:
            raise CliError(ExitCode.INTERRUPTED, f"interrupted; {_CONTINUES}") from stop
    return Answer(answer.body, msgspec.json.decode(answer.body, type=DifferenceList))


def _tell_of_joining(first: Comparing) -> None:
    """What was mended since it began may still be called a difference."""
    if first.elapsed_s > _JOINED_S:
        began = human_duration(first.elapsed_s)
        note(f"joining a comparison that began {began} ago: repeat it for what has changed since")


def _follow(client: Client, path: str, answer: Answer[_Kind], tell: Tell, timeout: "_TimeOut") -> Answer[_Kind]:
    while answer.content.kind == "Comparing":
        now = msgspec.json.decode(answer.body, type=Comparing)
        tell(now)
        timeout.check()
        time.sleep(POLL_S)
        answer = _ask_again(client, f"{path}/{now.id}")
    return answer


def _ask_again(client: Client, path: str) -> Answer[_Kind]:
    try:
        return client.get(path, _Kind)
    except CliError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
        message = (
            "the daemon does not know the comparison any more: it was started again, another one answers, "
            "or it is long ago; repeat it"
        )
        raise CliError(ExitCode.UNREACHABLE, message) from error


class _TimeOut:
    """How long all of it may take, from now on."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s

    def check(self) -> None:
        """:raises CliError: it took longer."""
        if time.monotonic() > self._until:
            message = f"not compared within {self._timeout_s:g} s; {_CONTINUES}; --timeout waits longer"
            raise CliError(ExitCode.TIMED_OUT, message)


@contextmanager
def _telling(settings: Settings) -> Iterator[Tell]:
    """How far it is: a bar on a terminal; elsewhere one line that it takes its time."""
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
            task, description=now.stage, total=100, completed=now.percent or 0, left=told(now)
        )


def told(now: Comparing) -> str:
    """``42%, 5.1 s left``, or how long it lasts where nobody knows more."""
    if now.percent is None:
        return human_duration(now.elapsed_s)
    left = "" if now.eta_seconds is None else f", {human_duration(now.eta_seconds)} left"
    return f"{now.percent:.0f}%{left}"
