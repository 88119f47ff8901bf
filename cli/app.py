"""controllerctl: the command line of an operator. One module per noun, imported when its command is called.

An import of all commands takes as long as most commands take.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from cli.contexts import choose_context
from cli.exit_codes import MEANINGS, CliError, ExitCode
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
    flags_apart,
    installed_version,
)
from cli.output import be_quiet, print_table, print_value
from cli.settings import DEFAULT_API, CliSettings, OutputFormat, settings_of, wants_color

if TYPE_CHECKING:
    from typer._click import Command, Context


COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "status": (
        "cli.status:status",
        "Show the active controller, this instance, and what needs attention; -o wide adds the last events.",
    ),
    "why": ("cli.why:why", "Explain the state of a topic or partition: what is wrong, why, and what to do."),
    "doctor": ("cli.doctor.command:doctor", "Check the cluster and the daemon: what is wrong, and what to do next."),
    "diff": (
        "cli.diff:diff",
        "Compare ZooKeeper with the controller and with the metadata of brokers. Exits with status 1 if they differ.",
    ),
    "observations": (
        "cli.observations:observations",
        "Show what the observed controller did, beside what this instance would have done.",
    ),
    "takeover": (
        "cli.role:takeover",
        "Make this instance the active controller, in one transaction and so without a gap.",
    ),
    "resign": ("cli.role:resign", "Make this instance resign as the active controller and stand by."),
    "pause": (
        "cli.pauses:pause",
        "Pause the automatic rebalance of leaders, or all deletions of topics, for a limited time.",
    ),
    "resume": (
        "cli.pauses:resume",
        "End a pause early: of auto-rebalance, deletions, or a drained broker that may lead again (drain-3).",
    ),
    "resync": (
        "cli.pauses:resync",
        "Read brokers, topics and requests from ZooKeeper again, without an election; after an edit of znodes.",
    ),
    "completion": (
        "cli.completion:completion",
        "Print the script that completes commands, flags, and names of topics, partitions and brokers.",
    ),
    "exit-codes": ("cli.app:exit_codes", "List the exit codes and what they mean."),
    "version": ("cli.app:version", "Show the version of controllerctl; status shows the daemon's."),
    "get": ("cli.get:app", "List brokers, topics, partitions and operations in progress."),
    "describe": ("cli.describe:app", "Show one topic, partition or broker with everything that belongs to it."),
    "events": ("cli.events:app", "Follow the events of the controller."),
    "reassign": ("cli.reassign:app", "Move replicas between brokers: plan, apply, follow, cancel."),
    "elect": ("cli.elect:app", "Elect leaders: preferred ones, or any live replica where a partition has no leader."),
    "topics": ("cli.topics:app", "Create, enlarge and delete topics."),
    "drain": ("cli.pauses:drain_app", "Move the leaderships of a broker away before it is stopped."),
    "audit": (
        "cli.audit_records:app",
        "Verify an audit log, export its head, show its records; from files.",
    ),
    "config": ("cli.config:app", "Show the configuration of an instance, check a file, explain a key."),
    "brokers": ("cli.brokers:app", "Manage what the controller knows of brokers."),
    "replay": (
        "cli.replay:app",
        "Analyze logs: reports, the state at any time, the cause of an outage.",
    ),
}
"""By name, the module and function of each command and the first sentence of its help, in the order of the list."""


class ListedCommands(TyperGroup):
    """A group whose help, completion and suggestions use the table alone; a command is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update((name, TyperCommand(name, help=line)) for name, (_, line) in COMMANDS.items())

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        """Return the called command from its module. Raises as typer's own method for an unknown command."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _imported(name), rest


def _imported(name: str) -> "Command":
    alone = typer.Typer(rich_markup_mode=None)
    add(alone, name)
    return typer.main.get_group(alone).commands[name]


def add(app: typer.Typer, name: str) -> None:
    """Import a command and add it to the app."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)


def application() -> typer.Typer:
    """Return the program with all commands imported, for the man pages and for tests."""
    app = program(TyperGroup)
    for name in COMMANDS:
        add(app, name)
    return app


def program(group: type[TyperGroup] = ListedCommands) -> typer.Typer:
    """Return the program: the global flags, then commands that are imported when they are called."""
    app = typer.Typer(
        cls=group,
        name="controllerctl",
        help="Inspect and operate controllerd, the controller of a ZooKeeper-mode Kafka cluster.",
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
    """Store the global flags for the command."""
    be_quiet(quiet=quiet)
    is_named = _is_on_command_line(context, "name")
    if is_named:  # a named cluster has priority over an address in the environment
        api = api if _is_on_command_line(context, "api") else None
        zk = zk if _is_on_command_line(context, "zk") else None
    name, known = choose_context(name, config)
    direct = zk or (known.zk if api is None and known.api is None else None)
    context.obj = CliSettings(
        api=api or known.api or DEFAULT_API,
        is_api_given=bool(api or known.api),
        zk=direct,
        known_zk=direct or known.zk,
        context=name,
        token=_token(is_named) or known.read_token(),
        ca_file=known.ca_file if is_named else os.environ.get("CONTROLLERCTL_CA_FILE") or known.ca_file,
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


def _token(is_named: bool) -> str | None:
    """Return the token of the environment. A token is for one cluster, so a named context does not use it."""
    return None if is_named else os.environ.get("CONTROLLERCTL_TOKEN") or None


def _is_on_command_line(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run controllerctl and return the exit code. :raises SystemExit: with the code, when a command ended."""
    try:
        with _written():
            return _run(sys.argv[1:] if arguments is None else arguments)
    except CliError as error:
        with suppress(OSError):  # standard error is closed: the exit code alone tells the failure
            typer.echo(f"controllerctl: {error}", err=True)
        return error.code


def _run(arguments: Sequence[str]) -> int:
    flags, rest = flags_apart(arguments)
    try:
        program()(args=[*flags, *rest], prog_name="controllerctl")
    except UnicodeEncodeError as error:
        raise CliError(ExitCode.USAGE, f"an argument is not valid UTF-8: {error.object!a}") from error
    return ExitCode.DONE


@contextmanager
def _written() -> Iterator[None]:
    """Flush standard output at the end of the block. :raises CliError: it could not be written."""
    if sys.stdout is None:
        raise CliError(ExitCode.UNWRITTEN, "standard output is closed: the answer cannot be printed")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        with Path(os.devnull).open("wb") as nowhere:  # else the interpreter flushes again at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise CliError(ExitCode.UNWRITTEN, f"{error.filename or 'the answer'}: {error.strerror}") from error


# -- commands that need no daemon --------------------------------------------------------------------------------------


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
