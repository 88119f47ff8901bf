"""``controllerctl pause``, ``resume``, ``resync`` and ``drain``: hold the controller back, have it look again."""

import re
from typing import Annotated, Final, Literal

import typer

from cli import completion
from cli.exit_codes import CliError, ExitCode
from cli.naming import LARGEST_ID
from cli.operations import Operation, run
from cli.settings import parse_duration, settings_of
from cli.units import human_duration

drain_app: Final = typer.Typer(
    help="MoveLeadershipAway a broker before it is stopped.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_STATUS: Final = "controllerctl status"
_PAUSE: Final = re.compile(r"auto-rebalance|deletions|drain-(0|[1-9][0-9]{0,9})")


def pause(
    context: typer.Context,
    what: Annotated[
        Literal["auto-rebalance", "deletions"],
        typer.Argument(metavar="auto-rebalance|deletions", help="What to leave alone."),
    ],
    duration: Annotated[
        float,
        typer.Option("--for", metavar="TIME", parser=parse_duration, help="When it ends by itself; at most a week."),
    ] = "30m",  # type: ignore[assignment]  # typer gives a default to the parser
) -> None:
    """Leave the automatic rebalance of leaders, or all deletions of topics, alone for a while.

    It shows in `controllerctl status`, outlives a failover, and ends by itself. What brokers were told already goes on.

    Examples: controllerctl pause auto-rebalance --for 2h --reason "rolling restart" ·
    controllerctl pause deletions --for 30m
    """
    from controllerd.status.schema.verbs import PauseRequest

    settings = settings_of(context)
    body = PauseRequest(what=what, for_s=max(1, round(duration)), reason=settings.reason)
    run(settings, Operation("/v1/pause", body, f"pause {what} for {human_duration(duration)}", shows=_STATUS))


def resume(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="auto-rebalance|deletions|drain-ID", help="What goes on; status shows what is paused."),
    ],
) -> None:
    """End a pause before its time: of auto-rebalance, deletions, or a drained broker that may lead again (drain-3).

    Examples: controllerctl resume auto-rebalance · controllerctl resume drain-3 --reason "disk replaced"
    """
    from controllerd.status.schema.verbs import ResumeRequest

    settings = settings_of(context)
    if _PAUSE.fullmatch(what) is None:
        message = f"{what!r} is never paused: there are auto-rebalance, deletions, and drain-ID, as drain-3 of broker 3"
        raise CliError(ExitCode.USAGE, message)
    body = ResumeRequest(what=what, reason=settings.reason)
    run(settings, Operation("/v1/resume", body, f"resume {what}", shows=_STATUS))


def resync(context: typer.Context) -> None:
    """Read brokers, topics and requests from ZooKeeper again, without an election; for whoever edited znodes.

    Examples: controllerctl resync --reason "znodes were edited by hand" · controllerctl resync --dry-run
    """
    from controllerd.status.schema.verbs import ResyncRequest

    settings = settings_of(context)
    body = ResyncRequest(reason=settings.reason)
    run(settings, Operation("/v1/resync", body, "read everything from ZooKeeper again", shows=_STATUS))


@drain_app.callback()
def drain() -> None:
    """MoveLeadershipAway a broker before it is stopped."""


@drain_app.command()
def broker(
    context: typer.Context,
    broker_id: Annotated[
        int,
        typer.Argument(
            metavar="ID", min=0, max=LARGEST_ID, autocompletion=completion.brokers, help="The broker to be stopped."
        ),
    ],
    leaders_only: Annotated[
        bool,
        typer.Option(
            "--leaders-only/--leave-isrs",
            help="Move the leaderships only: the broker stays in the ISRs, and the automatic rebalance moves no "
            "leadership back to it for an hour. Or take it out of the ISRs as well, as its controlled shutdown does; "
            "only if it is stopped next.",
        ),
    ] = True,
) -> None:
    """Move the leaderships of a broker to other brokers, before it is stopped.

    Shows first the next leader and ISR of each partition. A partition that cannot move is shown with the reason and
    stays; if there is one, the exit status is 5. For an hour, or until `controllerctl resume drain-ID`, the automatic
    rebalance moves no leadership back. The broker can still become leader when another leader fails, or by
    `controllerctl elect preferred`. With --leave-isrs the broker cannot lead before it is restarted, and `resume` does
    not undo that. A partition whose ISR becomes smaller than min.insync.replicas then refuses acks=all.

    Examples: controllerctl drain broker 3 --dry-run · controllerctl drain broker 3 --leave-isrs --reason "new disk"
    """
    from controllerd.status.schema.verbs import DrainRequest

    settings = settings_of(context)
    then = (
        "it stays in the ISRs, and the automatic rebalance moves no leadership back to it for an hour "
        f"or until controllerctl resume drain-{broker_id}"
        if leaders_only
        else "it leaves every ISR that has another member, and cannot lead before it is restarted"
    )
    operation = Operation(
        f"/v1/brokers/{broker_id}/drain",
        DrainRequest(leaders_only=leaders_only, reason=settings.reason),
        f"drain broker {broker_id}",
        warnings=(then,),
        when_idle=f"broker {broker_id} leads no partition, so nobody else has to; then {then}",
    )
    run(settings, operation)
