"""Confirmation before a change, and Ctrl-C after it."""

import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from cli.exit_codes import CliError, ExitCode
from cli.settings import CliSettings

Result = TypeVar("Result")


def confirm(settings: CliSettings, title: str, *plan: str, typed: str | None = None) -> None:
    """Print what will happen and ask for a yes, or for ``typed`` to be typed.

    :raises typer.Exit: this is a dry run. :raises CliError: the answer is no, or there is no terminal.
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
        return typer.confirm("continue?", default=False, err=True)
    answer: str = typer.prompt(f"type {typed} to continue", default="", show_default=False, err=True)
    return answer.strip() == typed


def uninterrupted(operation: Callable[[], Result]) -> Result:
    """Return the result of an operation that continues without this process. :raises CliError: Ctrl-C was pressed."""
    try:
        return operation()
    except KeyboardInterrupt as stop:
        message = "interrupted; the operation continues, controllerctl status shows the outcome"
        raise CliError(ExitCode.INTERRUPTED, message) from stop
