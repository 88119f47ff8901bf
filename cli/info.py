"""Commands that need no daemon: the exit codes and the version."""

import typer

from cli.exit_codes import MEANINGS
from cli.output import print_json, print_table
from cli.settings import settings_of


def exit_codes(context: typer.Context) -> None:
    """List the exit codes and what they mean."""
    settings = settings_of(context)
    if settings.wants_json:
        import msgspec

        print_json(msgspec.json.encode({str(int(code)): meaning for code, meaning in MEANINGS.items()}))
    else:
        print_table(settings, ("CODE", "MEANING"), ((str(int(code)), text) for code, text in MEANINGS.items()))


def version(context: typer.Context) -> None:
    """Show the version of controllerctl; status shows the daemon's."""
    from importlib.metadata import version as installed

    if settings_of(context).wants_json:
        import msgspec

        print_json(msgspec.json.encode({"controllerctl": installed("controllerd")}))
    else:
        typer.echo(f"controllerctl {installed('controllerd')}")
