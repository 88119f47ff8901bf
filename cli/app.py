"""controllerctl: the command line of an operator. One module per noun; what costs time is imported when it is used."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from cli import (
    audit,
    audit_contents,
    brokers,
    completion,
    config,
    describe,
    diff,
    elect,
    events,
    get,
    holding,
    info,
    observations,
    reassign,
    replay,
    role,
    status,
    topics,
    why,
)
from cli.arguments import global_flags_first
from cli.contexts import choose_context
from cli.doctor import command as doctor_command
from cli.exit_codes import CliError
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
app.command()(why.why)
app.command()(doctor_command.doctor)
app.command()(diff.diff)
app.add_typer(get.app, name="get")
app.add_typer(describe.app, name="describe")
app.add_typer(events.app, name="events")
app.command()(observations.observations)
app.command()(role.takeover)
app.command()(role.resign)
app.add_typer(reassign.app, name="reassign")
app.add_typer(elect.app, name="elect")
app.add_typer(topics.app, name="topics")
app.add_typer(holding.drain_app, name="drain")
app.command()(holding.pause)
app.command()(holding.resume)
app.command()(holding.resync)
audit.app.command()(audit_contents.cat)
audit.app.command()(audit_contents.stats)
app.add_typer(audit.app, name="audit")
app.add_typer(config.app, name="config")
app.add_typer(brokers.app, name="brokers")
app.add_typer(replay.app, name="replay")
app.command()(completion.completion)
app.command("exit-codes")(info.exit_codes)
app.command()(info.version)


@app.callback()
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
        app(args=global_flags_first(sys.argv[1:] if arguments is None else arguments), prog_name="controllerctl")
    except CliError as error:
        typer.echo(f"controllerctl: {error}", err=True)
        return error.code
    return 0
