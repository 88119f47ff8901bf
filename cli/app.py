"""controllerctl: the command line of an operator. One module per noun; what costs time is imported when it is used."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from cli import audit, brokers, info, observations, replay, role, status
from cli.exit_codes import CliError
from cli.settings import DEFAULT_API, OutputFormat, Settings, parse_duration

app: Final = typer.Typer(
    name="controllerctl",
    help="Look at and steer controllerd, the controller of a ZooKeeper-mode Kafka cluster.",
    epilog="Global flags may stand before or after the command. Exit codes: controllerctl exit-codes.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(status.status)
app.command()(observations.observations)
app.command()(role.takeover)
app.command()(role.resign)
app.add_typer(audit.app, name="audit")
app.add_typer(brokers.app, name="brokers")
app.add_typer(replay.app, name="replay")
app.command("exit-codes")(info.exit_codes)
app.command()(info.version)

_WITH_VALUE: Final = frozenset({"--api", "-o", "--output", "--reason", "--timeout"})
_WITHOUT_VALUE: Final = frozenset({"-y", "--yes", "--no-color"})


@app.callback()
def global_flags(
    context: typer.Context,
    api: Annotated[
        str, typer.Option(envvar="CONTROLLERCTL_API", metavar="URL", help="HTTP address of the daemon.")
    ] = DEFAULT_API,
    output: Annotated[
        OutputFormat, typer.Option("-o", "--output", help="How results are printed.")
    ] = OutputFormat.TABLE,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask before changing something.")] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the audit log.")] = "",
    timeout: Annotated[
        float, typer.Option(metavar="TIME", parser=parse_duration, help="Longest wait for an answer: 30s, 500ms, 2m.")
    ] = "30s",  # type: ignore[assignment]  # typer gives a default to the parser
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR does the same.")] = False,
) -> None:
    """Keep the global flags for the command."""
    color = not (no_color or os.environ.get("NO_COLOR"))
    context.obj = Settings(api, output, yes, reason, timeout, color)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run controllerctl; the exit code. :raises SystemExit: with the code, when the command came to its end."""
    try:
        app(args=global_flags_first(sys.argv[1:] if arguments is None else arguments), prog_name="controllerctl")
    except CliError as error:
        typer.echo(f"controllerctl: {error}", err=True)
        return error.code
    return 0


def global_flags_first(arguments: Sequence[str]) -> list[str]:
    """The same arguments with the global flags before the command, wherever they stood; ``--`` ends the search."""
    first: list[str] = []
    rest: list[str] = []
    remaining: Iterator[str] = iter(arguments)
    for argument in remaining:
        if argument == "--":
            rest += [argument, *remaining]
        elif argument in _WITH_VALUE:
            first += [argument, *_next(remaining)]
        elif argument in _WITHOUT_VALUE or argument.partition("=")[0] in _WITH_VALUE:
            first.append(argument)
        else:
            rest.append(argument)
    return first + rest


def _next(remaining: Iterator[str]) -> list[str]:
    following = next(remaining, None)
    return [] if following is None else [following]
