"""``controllerctl brokers``: what an operator knows of a broker and the controller cannot know."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.asking import confirm, refuse_unfit, uninterrupted
from cli.exit_codes import CliError, ExitCode
from cli.naming import LARGEST_ID
from cli.output import print_data
from cli.settings import OutputFormat, settings_of
from cli.units import human_duration
from controllerd.core.counted import counted

if TYPE_CHECKING:
    from controllerd.status.schema.status import StatusResponse

app: Final = typer.Typer(
    help="Tell the controller about brokers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_NAMED: Final = 5


@app.callback()
def brokers() -> None:
    """Tell the controller about brokers."""


@app.command()
def forget(
    context: typer.Context,
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, max=LARGEST_ID, help="The broker that never returns.")],
) -> None:
    """Declare that a broker never returns, so that its replicas hold up no deletion of a topic any more.

    It concerns the topics whose deletion was asked for by now. What the broker has on its disks is deleted should it
    return after all.

    It wants --reason TEXT, which goes to the audit log, and the id typed once
    more, or --yes. Both options stand in `controllerctl --help`.

    Examples: controllerctl brokers forget 7 --reason "machine burnt down" ·
    controllerctl brokers forget 7 --reason "given back" --yes -o json
    """
    settings = settings_of(context)
    if not settings.reason:
        raise CliError(ExitCode.USAGE, "say why with --reason TEXT: it is written to the audit log")
    client = settings.changing_client()
    before = client.status().content
    refuse_unfit(settings, before)
    _refuse_live(broker, before)
    if settings.dry_run and settings.wants_json:
        print_data(settings, client.forget_broker(broker, settings.reason, dry_run=True).body)
        return
    confirm(
        settings,
        f"forget broker {broker} in cluster {before.meta.cluster_id or 'not known yet'}",
        held_up(broker, before),
        "their deletion goes on as if the broker had deleted its replicas",
        "if it returns after all, it is told to delete what it still has",
        typed=str(broker),
    )
    answer = uninterrupted(lambda: client.forget_broker(broker, settings.reason))
    if settings.wants_json:
        print_data(settings, answer.body)
        return
    if settings.output is OutputFormat.NAME:
        typer.echo(str(broker))
        return
    done = answer.content
    topics, replicas = counted(len(done.topics), "topic"), counted(done.replicas, "replica")
    typer.echo(
        f"broker {broker} forgotten in {human_duration(done.took_s)}: the deletion of {topics} goes on without it, "
        f"{replicas} to be deleted should it return"
    )


def _refuse_live(broker: int, now: "StatusResponse") -> None:
    if any(one.id == broker for one in now.status.brokers):
        message = f"broker {broker} is registered: only a broker that is gone can be forgotten; nothing was changed"
        raise CliError(ExitCode.REFUSED, message)


def held_up(broker: int, now: "StatusResponse") -> str:
    """Which deletions wait, as a line for people."""
    waiting = [one.topic for one in now.status.deletions if one.held_up_by]
    if not waiting:
        return f"no deletion is held up at the moment, by broker {broker} or by anything else"
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    return f"deletions that are held up: {', '.join(waiting[:_NAMED])}{more}"
