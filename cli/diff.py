"""``controllerctl diff``: ZooKeeper, the controller's memory and brokers' metadata; or two moments of an audit log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import replay
from cli.exit_codes import CliError, ExitCode
from cli.listing import Column, Found, Listing, print_found
from cli.output import note
from cli.settings import settings_of
from cli.units import dash, ids
from controllerd.core.counted import counted

if TYPE_CHECKING:
    from controllerd.status.schema.work import Difference

_DIFFERENCES: Final["Listing[Difference]"] = Listing(
    "/v1/diff",
    (
        Column("SUBJECT", lambda item: item.subject),
        Column("FIELD", lambda item: item.field),
        Column("ZOOKEEPER", lambda item: dash(item.zookeeper)),
        Column("MEMORY", lambda item: dash(item.memory)),
        Column("BROKER", lambda item: dash(item.broker)),
    ),
    lambda item: item.subject,
    "no differences",
)


def diff(
    context: typer.Context,
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG]...", help="With --at: directories of audit logs.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="TIME", help="Twice: compare two moments of audit logs instead."),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", metavar="GLOB", help="With --at: only topics that match.")] = "*",
    brokers: Annotated[bool, typer.Option(help="Ask brokers for their metadata as well.")] = True,
) -> None:
    """Compare what ZooKeeper says with what the controller knows and brokers tell; ends with 1 on a difference.

    What differs is looked at again after two seconds, so that what is on its way is no difference. Of 100,000
    partitions it takes some ten seconds, and --timeout says how long to wait. With --at TIME twice no daemon is asked:
    two moments of audit logs are compared, as `controllerctl replay diff` does.

    Examples: controllerctl diff · controllerctl diff --at 2026-01-31T03:00:00Z --at 2026-01-31T04:00:00Z
    /var/lib/controllerd/prod/audit
    """
    if at or logs:
        if not (at and logs):
            message = (
                "two moments of audit logs are compared by --at TIME --at TIME LOG; without both the daemon is asked"
            )
            raise CliError(ExitCode.USAGE, message)
        replay.diff(context, logs, at, topic)
        return
    from cli.comparing import compared

    settings = settings_of(context)
    answer = compared(settings, _DIFFERENCES.path, brokers=brokers)
    found = answer.content
    print_found(settings, _DIFFERENCES, Found(found.items, answer.body))
    for text in found.notes:
        note(f"note: {text}")
    note(f"compared: {counted(found.compared, 'partition')}; metadata of brokers: {ids(found.brokers)}")
    if found.items:
        raise typer.Exit(ExitCode.NO)
