"""Picture after picture until Ctrl-C: redrawn on a terminal, lines of JSON elsewhere."""

import sys
import time
from collections.abc import Callable

import typer

from cli.exit_codes import CliError, ExitCode
from cli.output import clear_screen, note
from cli.settings import Settings


def watch(settings: Settings, every_s: float, show: Callable[[bool], None]) -> None:
    """Call ``show`` again and again, telling it whether it is to print a line.

    :raises typer.Exit: Ctrl-C. :raises CliError: something else went wrong than that the daemon is away for a while.
    """
    try:
        while True:
            if settings.redraws:
                clear_screen()
            try:
                show(not settings.redraws)
            except CliError as error:
                if error.code is not ExitCode.UNREACHABLE:
                    raise
                note(str(error))  # a watch outlives the restart of the daemon
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt as stop:
        raise typer.Exit(ExitCode.INTERRUPTED) from stop
