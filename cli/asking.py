"""Before something is changed: say what will happen, and ask; and what an impatient Ctrl-C means."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from cli.exit_codes import CliError, ExitCode
from cli.settings import Settings

if TYPE_CHECKING:
    from controllerd.status.schema.common import Meta
    from controllerd.status.schema.status import StatusResponse

Result = TypeVar("Result")


def confirm(settings: Settings, title: str, *plan: str, typed: str | None = None) -> None:
    """Say what will happen and ask, for a yes or for ``typed`` to be typed in.

    :raises typer.Exit: this is a dry run, and all is said. :raises CliError: the answer is no, or nobody is there.
    """
    for line in (f"{title}:", *(f"  {step}" for step in plan)):
        typer.echo(line, err=True)
    if settings.dry_run:
        typer.echo("dry run: nothing was changed", err=True)
        raise typer.Exit
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


def refuse_unfit(settings: Settings, now: "StatusResponse") -> None:
    """Nothing is changed in another cluster than was meant, nor through an instance that only watches.

    :raises CliError: it is one of these.
    """
    refuse_other_cluster(settings, now.meta)
    if now.status.role == "observer":
        message = "this instance observes and changes nothing: name another one with --api URL; nothing was changed"
        raise CliError(ExitCode.REFUSED, message)


def refuse_other_cluster(settings: Settings, meta: "Meta") -> None:
    """:raises CliError: the context expects another cluster behind this address."""
    expected = settings.expected_cluster_id
    if expected is not None and meta.cluster_id != expected:
        message = (
            f"{settings.api} is of cluster {meta.cluster_id or 'not known yet'}, "
            f"but the context {settings.context} expects {expected}; nothing was changed"
        )
        raise CliError(ExitCode.OTHER_CLUSTER, message)


def uninterrupted(operation: Callable[[], Result]) -> Result:
    """The result of an operation that goes on without us. :raises CliError: we were interrupted."""
    try:
        return operation()
    except KeyboardInterrupt as stop:
        message = "interrupted; the operation continues, controllerctl status shows the outcome"
        raise CliError(ExitCode.INTERRUPTED, message) from stop
