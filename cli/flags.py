"""The global flags: one type each, as the command line and its help show them."""

from pathlib import Path
from typing import Annotated

import typer

from cli import completion, info
from cli.settings import DEFAULT_API, OutputFormat, parse_duration


def show_version(wanted: bool) -> None:
    """Say it and end, if that is wanted. :raises typer.Exit: it was."""
    if wanted:
        typer.echo(f"controllerctl {info.installed_version()}")
        raise typer.Exit


ContextName = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--context",
        envvar="CONTROLLERCTL_CONTEXT",
        metavar="NAME",
        autocompletion=completion.contexts,
        help="Cluster from the contexts in the configuration file.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        envvar="CONTROLLERCTL_CONFIG",
        metavar="FILE",
        help="File of the contexts; before the command. [default: ~/.config/controllerctl/config.toml]",
    ),
]
Api = Annotated[
    str | None,
    typer.Option(
        envvar="CONTROLLERCTL_API",
        metavar="URL",
        help=f"Address of the daemon: http, https, or unix:///path/of/socket. [default: {DEFAULT_API}]",
    ),
]
ZooKeeperHosts = Annotated[
    str | None,
    typer.Option(
        envvar="CONTROLLERCTL_ZK",
        metavar="HOSTS",
        help="Read ZooKeeper instead of asking a daemon: host:port,... and perhaps a chroot.",
    ),
]
Output = Annotated[
    OutputFormat, typer.Option("-o", "--output", envvar="CONTROLLERCTL_OUTPUT", help="How results are printed.")
]
NoHeaders = Annotated[
    bool, typer.Option("--no-headers", envvar="CONTROLLERCTL_NO_HEADERS", help="Tables without headings.")
]
NoColor = Annotated[
    bool, typer.Option("--no-color", envvar="CONTROLLERCTL_NO_COLOR", help="No colours; NO_COLOR does the same.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", envvar="CONTROLLERCTL_QUIET", help="No notes and no progress.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="Say what is asked; -vv: with headers.")]
Timeout = Annotated[
    float,
    typer.Option(
        envvar="CONTROLLERCTL_TIMEOUT",
        metavar="TIME",
        parser=parse_duration,
        help="Longest wait for an answer: 30s, 500ms, 2m.",
    ),
]
Yes = Annotated[
    bool, typer.Option("-y", "--yes", envvar="CONTROLLERCTL_YES", help="Do not ask before changing something.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be changed, and change nothing.")]
Reason = Annotated[str, typer.Option(envvar="CONTROLLERCTL_REASON", metavar="TEXT", help="Why, for the audit log.")]
Version = Annotated[bool, typer.Option("--version", is_eager=True, callback=show_version, help="Show the version.")]
