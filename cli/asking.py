"""Before something is changed: say what will happen, and ask; and what an impatient Ctrl-C means."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from cli.exit_codes import CliError, ExitCode
from cli.output import note
from cli.settings import Settings

if TYPE_CHECKING:
    from controllerd.status.schema import StatusResponse

Result = TypeVar("Result")


def confirm(settings: Settings, title: str, *plan: str, typed: str | None = None) -> None:
    """Say what will happen and ask, for a yes or for ``typed`` to be typed in.

    :raises CliError: the answer is no, or nobody is there to ask.
    """
    note(f"{title}:")
    for step in plan:
        note(f"  {step}")
    if settings.assume_yes:
        return
    if not sys.stdin.isatty():
        raise CliError(ExitCode.DECLINED, "nothing was changed: there is no terminal to ask on; repeat with --yes")
    try:
        agreed = _is_agreed(typed)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise CliError(ExitCode.DECLINED, "declined: nothing was changed")


def _is_agreed(typed: str | None) -> bool:
    if typed is None:
        return typer.confirm("go on?", default=False, err=True)
    answer: str = typer.prompt(f"type {typed} to go on", default="", show_default=False, err=True)
    return answer.strip() == typed


def refuse_observer(now: "StatusResponse") -> None:
    """Nothing can be changed through an instance that only watches. :raises CliError: this is one."""
    if now.status.role == "observer":
        message = "this instance observes and changes nothing: name another one with --api URL; nothing was changed"
        raise CliError(ExitCode.REFUSED, message)


def uninterrupted(operation: Callable[[], Result]) -> Result:
    """The result of an operation that goes on without us. :raises CliError: we were interrupted."""
    try:
        return operation()
    except KeyboardInterrupt as stop:
        message = "interrupted; the operation continues, controllerctl status shows the outcome"
        raise CliError(ExitCode.INTERRUPTED, message) from stop
