"""Commands that need no daemon: the exit codes and the version."""

import typer

from cli.exit_codes import MEANINGS
from cli.output import print_table, print_value
from cli.settings import OutputFormat, settings_of


def exit_codes(context: typer.Context) -> None:
    """List the exit codes and what they mean.

    Examples: controllerctl exit-codes · controllerctl exit-codes -o json
    """
    settings = settings_of(context)
    if settings.wants_json:
        print_value(settings, {str(int(code)): meaning for code, meaning in MEANINGS.items()})
    elif settings.output is OutputFormat.NAME:
        for code in MEANINGS:
            typer.echo(str(int(code)))
    else:
        print_table(settings, ("CODE", "MEANING"), ((str(int(code)), text) for code, text in MEANINGS.items()))


def version(context: typer.Context) -> None:
    """Show the version of controllerctl; status shows the daemon's.

    Examples: controllerctl version · controllerctl version -o json
    """
    settings = settings_of(context)
    if settings.wants_json:
        print_value(settings, {"controllerctl": installed_version()})
    elif settings.output is OutputFormat.NAME:
        typer.echo(installed_version())
    else:
        typer.echo(f"controllerctl {installed_version()}")


def installed_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import version as installed

    return installed("controllerd")
