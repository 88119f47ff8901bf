"""controllerctl: the command line of an operator. One module per noun; what costs time is imported when it is used."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import typer
from typer.core import TyperGroup

from cli.arguments import flags_apart
from cli.commands import COMMANDS, ListedCommands, add
from cli.contexts import choose_context
from cli.exit_codes import CliError, ExitCode
from cli.flags import (
    Api,
    ConfigFile,
    ContextName,
    DryRun,
    NoColor,
    NoHeaders,
    Output,
    Quiet,
    Reason,
    Timeout,
    Verbose,
    Version,
    Yes,
    ZooKeeperHosts,
)
from cli.output import be_quiet
from cli.settings import DEFAULT_API, OutputFormat, Settings, wants_color


def application() -> typer.Typer:
    """All commands, imported: for who walks them, such as the man pages."""
    app = program(TyperGroup)
    for name in COMMANDS:
        add(app, name)
    return app


def program(group: type[TyperGroup] = ListedCommands) -> typer.Typer:
    """What is run: the global flags before commands that are imported when they are called."""
    app = typer.Typer(
        cls=group,
        name="controllerctl",
        help="Look at and steer controllerd, the controller of a ZooKeeper-mode Kafka cluster.",
        epilog="Global flags may stand before or after the command. Exit codes: controllerctl exit-codes.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(global_flags)
    return app


def global_flags(
    context: typer.Context,
    name: ContextName = None,
    config: ConfigFile = None,
    api: Api = None,
    zk: ZooKeeperHosts = None,
    output: Output = OutputFormat.TABLE,
    no_headers: NoHeaders = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    timeout: Timeout = "30s",  # type: ignore[assignment]  # typer gives a default to the parser
    yes: Yes = False,
    dry_run: DryRun = False,
    reason: Reason = "",
    version: Version = False,  # noqa: ARG001  # its callback has done everything
) -> None:
    """Keep the global flags for the command."""
    be_quiet(quiet=quiet)
    is_chosen = _is_on_command_line(context, "name")
    if is_chosen:  # a cluster that is named counts more than an address in the environment
        api = api if _is_on_command_line(context, "api") else None
        zk = zk if _is_on_command_line(context, "zk") else None
    name, known = choose_context(name, config)
    direct = zk or (known.zk if api is None and known.api is None else None)
    context.obj = Settings(
        api=api or known.api or DEFAULT_API,
        is_api_given=bool(api or known.api),
        zk=direct,
        known_zk=direct or known.zk,
        context=name,
        token=_token(is_chosen) or known.read_token(),
        ca_file=known.ca_file if is_chosen else os.environ.get("CONTROLLERCTL_CA_FILE") or known.ca_file,
        expected_cluster_id=known.expected_cluster_id,
        output=output,
        headers=not no_headers,
        color=wants_color(forbidden=no_color),
        quiet=quiet,
        verbosity=verbose,
        timeout_s=timeout,
        assume_yes=yes,
        dry_run=dry_run,
        reason=reason,
    )


def _token(is_chosen: bool) -> str | None:
    """A token is for one cluster: that of the environment is not for a context that was named."""
    return None if is_chosen else os.environ.get("CONTROLLERCTL_TOKEN") or None


def _is_on_command_line(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run controllerctl; the exit code. :raises SystemExit: with the code, when the command came to its end."""
    try:
        with _written():
            return _run(sys.argv[1:] if arguments is None else arguments)
    except CliError as error:
        with suppress(OSError):  # standard error takes nothing: then the code has to tell it
            typer.echo(f"controllerctl: {error}", err=True)
        return error.code


def _run(arguments: Sequence[str]) -> int:
    flags, rest = flags_apart(arguments)
    try:
        program()(args=[*flags, *rest], prog_name="controllerctl")
    except UnicodeEncodeError as error:
        raise CliError(ExitCode.USAGE, f"an argument is no UTF-8 text: {error.object!a}") from error
    return ExitCode.DONE


@contextmanager
def _written() -> Iterator[None]:
    """What is printed here is written when the block ends, or a :class:`CliError` says that it could not be."""
    if sys.stdout is None:
        raise CliError(ExitCode.UNWRITTEN, "standard output is closed: there is nowhere to print the answer")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        with Path(os.devnull).open("wb") as nowhere:  # or the interpreter tries once more when it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise CliError(ExitCode.UNWRITTEN, f"{error.filename or 'the answer'}: {error.strerror}") from error
