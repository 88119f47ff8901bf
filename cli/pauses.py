"""``controllerctl pause``, ``resume``, ``resync`` and ``drain``."""

import re
from typing import Annotated, Final, Literal

import typer

from cli import completion
from cli.arguments import LARGEST_ID, parse_duration
from cli.exit_codes import CliError, ExitCode
from cli.operations import OperationRequest, run
from cli.output import human_duration
from cli.settings import settings_of

drain_app: Final = typer.Typer(
    help="Move the leaderships of a broker away before it is stopped.",
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
        typer.Argument(metavar="auto-rebalance|deletions", help="What to pause."),
    ],
    duration: Annotated[
        float,
        typer.Option("--for", metavar="TIME", parser=parse_duration, help="Duration; at most a week."),
    ] = "30m",  # type: ignore[assignment]  # typer gives a default to the parser
) -> None:
    """Pause the automatic rebalance of leaders, or all deletions of topics, for a limited time.

    `controllerctl status` shows the pause. It survives a failover and ends by itself. It does not undo requests that
    were sent before.

    Examples: controllerctl pause auto-rebalance --for 2h --reason "rolling restart" ·
    controllerctl pause deletions --for 30m
    """
    from controllerd.status.schema.verbs import PauseRequest

    settings = settings_of(context)
    body = PauseRequest(what=what, for_s=max(1, round(duration)), reason=settings.reason)
    run(settings, OperationRequest("/v1/pause", body, f"pause {what} for {human_duration(duration)}", shows=_STATUS))


def resume(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="auto-rebalance|deletions|drain-ID", help="Pause to end; status shows the pauses."),
    ],
) -> None:
    """End a pause early: of auto-rebalance, deletions, or a drained broker that may lead again (drain-3).

    Examples: controllerctl resume auto-rebalance · controllerctl resume drain-3 --reason "disk replaced"
    """
    from controllerd.status.schema.verbs import ResumeRequest

    settings = settings_of(context)
    if _PAUSE.fullmatch(what) is None:
        message = f"{what!r} cannot be paused: choose auto-rebalance, deletions or drain-ID, as drain-3 for broker 3"
        raise CliError(ExitCode.USAGE, message)
    body = ResumeRequest(what=what, reason=settings.reason)
    run(settings, OperationRequest("/v1/resume", body, f"resume {what}", shows=_STATUS))


def resync(context: typer.Context) -> None:
    """Read brokers, topics and requests from ZooKeeper again, without an election; after an edit of znodes.

    Examples: controllerctl resync --reason "znodes were edited by hand" · controllerctl resync --dry-run
    """
    from controllerd.status.schema.verbs import VerbRequest

    settings = settings_of(context)
    body = VerbRequest(reason=settings.reason)
    run(settings, OperationRequest("/v1/resync", body, "read everything from ZooKeeper again", shows=_STATUS))


@drain_app.callback()
def drain() -> None:
    """Move the leaderships of a broker away before it is stopped."""


@drain_app.command()
def broker(
    context: typer.Context,
    broker_id: Annotated[
        int,
        typer.Argument(
            metavar="ID",
            min=0,
            max=LARGEST_ID,
            autocompletion=completion.brokers,
            help="Id of the broker to be stopped.",
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
    stays. Exits with status 5 if there is one. For an hour, or until `controllerctl resume drain-ID`, the automatic
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
    operation = OperationRequest(
        f"/v1/brokers/{broker_id}/drain",
        DrainRequest(leaders_only=leaders_only, reason=settings.reason),
        f"drain broker {broker_id}",
        warnings=(then,),
        when_idle=f"broker {broker_id} leads no partition; then {then}",
    )
    run(settings, operation)
