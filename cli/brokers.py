"""``controllerctl brokers``: facts about a broker that only an operator can know."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.arguments import LARGEST_ID
from cli.confirmation import confirm, uninterrupted
from cli.connect import changing_client, refuse_unfit
from cli.exit_codes import CliError, ExitCode
from cli.output import human_duration, print_data
from cli.settings import OutputFormat, settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from controllerd.status.schema.status import StatusResponse

app: Final = typer.Typer(
    help="Manage what the controller knows of brokers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_MAX_NAMES_SHOWN: Final = 5


@app.callback()
def brokers() -> None:
    """Manage what the controller knows of brokers."""


@app.command()
def forget(
    context: typer.Context,
    broker: Annotated[
        int, typer.Argument(metavar="ID", min=0, max=LARGEST_ID, help="Id of the broker that never returns.")
    ],
) -> None:
    """Declare that a broker never returns, so that its replicas no longer block the deletion of topics.

    Concerns the topics whose deletion was requested before. If the broker returns after all, its replicas of them are
    deleted then.

    Requires --reason TEXT for the audit log, and the id typed once more, or --yes. See `controllerctl --help` for both
    options.

    Examples: controllerctl brokers forget 7 --reason "machine burnt down" ·
    controllerctl brokers forget 7 --reason "given back" --yes -o json
    """
    settings = settings_of(context)
    if not settings.reason:
        raise CliError(ExitCode.USAGE, "requires --reason TEXT, which is written to the audit log")
    client = changing_client(settings)
    before = client.status().content
    refuse_unfit(settings, before)
    _refuse_live(broker, before)
    if settings.dry_run and settings.wants_json:  # `confirm` ends a dry run as text, after it has printed the plan
        print_data(settings, client.forget_broker(broker, settings.reason, dry_run=True).body)
        return
    confirm(
        settings,
        f"forget broker {broker} in cluster {before.meta.cluster_id or 'not known yet'}",
        held_up(broker, before),
        "deletions that wait for this broker continue as if it had deleted its replicas",
        "if the broker returns after all, the controller has it delete its replicas",
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
        f"broker {broker} forgotten in {human_duration(done.took_s)}: the deletion of {topics} continues without it, "
        f"{replicas} to be deleted if it returns"
    )


def _refuse_live(broker: int, now: "StatusResponse") -> None:
    if any(one.id == broker for one in now.status.brokers):
        message = f"broker {broker} is registered: only a broker that is gone can be forgotten; nothing was changed"
        raise CliError(ExitCode.REFUSED, message)


def held_up(broker: int, now: "StatusResponse") -> str:
    """Return a line of the plan: all blocked deletions, whether or not this broker blocks them."""
    waiting = [one.topic for one in now.status.deletions if one.held_up_by]
    if not waiting:
        return f"no deletion is blocked at the moment, by broker {broker} or by anything else"
    more = f" and {len(waiting) - _MAX_NAMES_SHOWN} more" if len(waiting) > _MAX_NAMES_SHOWN else ""
    return f"blocked deletions: {', '.join(waiting[:_MAX_NAMES_SHOWN])}{more}"
