"""The global flags: one type each, as the command line and its help show them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from cli import completion
from cli.arguments import is_duration, parse_duration
from cli.settings import DEFAULT_API, OutputFormat


def installed_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import version as installed

    return installed("controllerd")


def show_version(wanted: bool) -> None:
    """Print the version and exit, if it is requested. :raises typer.Exit: it is."""
    if wanted:
        typer.echo(f"controllerctl {installed_version()}")
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
        help="ZooKeeper servers to read instead of asking a daemon: host:port,... with an optional chroot.",
    ),
]
Output = Annotated[
    OutputFormat, typer.Option("-o", "--output", envvar="CONTROLLERCTL_OUTPUT", help="Format of the results.")
]
NoHeaders = Annotated[
    bool, typer.Option("--no-headers", envvar="CONTROLLERCTL_NO_HEADERS", help="Tables without headings.")
]
NoColor = Annotated[
    bool, typer.Option("--no-color", envvar="CONTROLLERCTL_NO_COLOR", help="No colours; NO_COLOR does the same.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", envvar="CONTROLLERCTL_QUIET", help="No notes and no progress.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="Print each request; -vv: with headers.")]
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


_WITH_VALUE: Final = frozenset({"-c", "--context", "--api", "--zk", "-o", "--output", "--reason", "--timeout"})
"""Not ``--config``, which is also Kafka's flag for the configs of a topic: as a global flag it stands in front."""
_WITHOUT_VALUE: Final = frozenset(
    {"-y", "--yes", "--no-color", "--no-headers", "-q", "--quiet", "-v", "-vv", "--verbose", "--dry-run"}
)
_WATCH: Final = frozenset({"-w", "--watch"})
_WATCH_EVERY: Final = "2s"


def global_flags_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the global flags moved before the command."""
    flags, rest = flags_apart(arguments)
    return flags + rest


def flags_apart(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the global flags with their values, and the other arguments; ``--`` ends the search."""
    first: list[str] = []
    rest: list[str] = []
    remaining: Iterator[str] = iter(_with_intervals(arguments))
    for argument in remaining:
        if argument == "--":
            rest += [argument, *remaining]
        elif argument in _WITH_VALUE:
            first += [argument, *_next(remaining)]
        elif argument in _WITHOUT_VALUE or _has_value(argument):
            first.append(argument)
        else:
            rest.append(argument)
    return first, rest


def _has_value(argument: str) -> bool:
    """Return whether an argument contains its value: ``--output=json``, ``-o=json`` and ``-ojson``."""
    is_short = len(argument) > 2 and argument[1] != "-" and argument[:2] in {"-o", "-c"}
    return is_short or argument.partition("=")[0] in _WITH_VALUE


def _next(remaining: Iterator[str]) -> list[str]:
    following = next(remaining, None)
    return [] if following is None else [following]


def _with_intervals(arguments: Sequence[str]) -> Iterator[str]:
    """Return the arguments with the interval of a bare ``-w``: every other second."""
    followers = [*arguments, ""][1:]
    for argument, follower in zip(arguments, followers, strict=True):
        yield argument
        if argument in _WATCH and not is_duration(follower):
            yield _WATCH_EVERY
