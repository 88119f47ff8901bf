"""``controllerctl takeover`` and ``resign``: move the role of the controller, after a confirmation."""

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from cli.confirmation import confirm, uninterrupted
from cli.connect import changing_client, refuse_unfit
from cli.output import human_duration, print_data, print_value
from cli.settings import CliSettings, OutputFormat, settings_of

if TYPE_CHECKING:
    from cli.client import ApiAnswer, Client
    from controllerd.status.schema.status import StatusResponse
    from controllerd.status.schema.tasks import ResignResponse, TakeoverResponse

_SUCCESSOR_S: Final = 5.0
"""Seconds for which the next controller is awaited after a resignation."""
_LOOK_EVERY_S: Final = 0.02


def takeover(
    context: typer.Context,
    holder: Annotated[
        Literal["any", "broker", "instance"],
        typer.Option(
            "--from", metavar="broker|instance", help="Kind of holder to take the role from; refuse another kind."
        ),
    ] = "any",
    remember: Annotated[
        bool, typer.Option("--remember", help="From now on take the role from brokers at every start, too.")
    ] = False,
) -> None:
    """Make this instance the active controller, in one transaction and so without a gap.

    Examples: controllerctl takeover --from broker --reason "first trial" · controllerctl takeover --yes -o json
    """
    settings = settings_of(context)
    client = changing_client(settings)
    before = client.status().content
    refuse_unfit(settings, before)
    is_held = before.status.role == "active"
    if is_held and not remember:
        _report_held_already(settings, before)
        return
    planned = client.takeover(settings.reason, remember=remember, holder=holder, dry_run=True)
    if settings.dry_run and settings.wants_json:
        print_data(settings, planned.body)
        return
    consequences = () if is_held else _consequences_of_takeover(before)
    if remember:
        consequences += ("from now on, after every start too, it takes the role from brokers by itself",)
    confirm(settings, f"takeover in cluster {before.meta.cluster_id or 'not known yet'}", *consequences)
    answer = uninterrupted(lambda: client.takeover(settings.reason, remember=remember, holder=holder))
    _report_taken(settings, answer, before, is_held=is_held)


def _report_taken(
    settings: CliSettings, answer: "ApiAnswer[TakeoverResponse]", before: "StatusResponse", *, is_held: bool
) -> None:
    done = answer.content
    if settings.wants_json:
        print_data(settings, answer.body)
    elif settings.output is OutputFormat.NAME:
        typer.echo(f"controllerd {before.status.node_id}")
    elif is_held:
        typer.echo(f"remembered; the role was held already, with controller epoch {done.epoch_after}")
    else:
        typer.echo(
            f"role taken from {done.held_by} in {human_duration(done.took_s)}, without a gap: "
            f"controller epoch {done.epoch_before} -> {done.epoch_after}"
        )


def resign(context: typer.Context) -> None:
    """Make this instance resign as the active controller and stand by.

    Examples: controllerctl resign --reason "kernel upgrade" · controllerctl resign --yes
    """
    settings = settings_of(context)
    client = changing_client(settings)
    before = client.status().content
    refuse_unfit(settings, before)
    if before.status.role == "standby":
        _report_not_held(settings, before)
        return
    if settings.dry_run and settings.wants_json:
        print_data(settings, client.resign(settings.reason, dry_run=True).body)
        return
    confirm(
        settings,
        f"resignation in cluster {before.meta.cluster_id or 'not known yet'}",
        f"controllerd {before.status.node_id} deletes /controller and does not contend for a while",
        "another instance, or the controller inside a broker, takes the role within milliseconds",
    )
    answer = uninterrupted(lambda: client.resign(settings.reason))
    if settings.wants_json:
        print_data(settings, answer.body)
    else:
        _report_given(settings, answer.content, client, before.meta.controller_epoch)


def _report_given(settings: CliSettings, done: "ResignResponse", client: "Client", epoch: int) -> None:
    """Print the next controller, and the time without one."""
    began = time.monotonic()
    now = _successor(client)
    gap = human_duration(time.monotonic() - began)
    if settings.output is OutputFormat.NAME:
        typer.echo(str(now.status.holder) if now is not None else "nobody")
        return
    given = f"role given away in {human_duration(done.took_s)}, with controller epoch {epoch}"
    if now is None:
        typer.echo(f"{given}; no controller after {gap}: controllerctl status, controllerctl doctor")
    else:
        typer.echo(f"{given}; {now.status.holder} is the controller {gap} later")


def _successor(client: "Client") -> "StatusResponse | None":
    """Return the status once there is another controller; None if there is none for a while."""
    began = time.monotonic()
    while time.monotonic() - began < _SUCCESSOR_S:
        now = client.status().content
        if now.status.holder is not None and now.status.role != "active":
            return now
        time.sleep(_LOOK_EVERY_S)
    return None


def _consequences_of_takeover(before: "StatusResponse") -> tuple[str, ...]:
    node, holder = before.status.node_id, before.status.holder
    source = "" if holder is None else f" from {holder}"
    return (
        f"controllerd {node} takes the role{source}, in one transaction; the controller epoch grows by one",
        "it then loads the cluster and sends every broker its state",
    )


def _report_held_already(settings: CliSettings, now: "StatusResponse") -> None:
    from controllerd.status.schema.tasks import TakeoverResponse

    epoch, holder = now.meta.controller_epoch, f"controllerd {now.status.node_id}"
    if settings.wants_json:
        print_value(settings, TakeoverResponse(epoch_before=epoch, epoch_after=epoch, held_by=holder, took_s=0.0))
    elif settings.output is OutputFormat.NAME:
        typer.echo(holder)
    else:
        typer.echo(f"nothing to do: {holder} holds the role already, with controller epoch {epoch}")


def _report_not_held(settings: CliSettings, now: "StatusResponse") -> None:
    from controllerd.status.schema.tasks import ResignResponse

    if settings.wants_json:
        print_value(settings, ResignResponse(took_s=0.0))
    elif settings.output is OutputFormat.NAME:
        typer.echo(str(now.status.holder or "nobody"))
    else:
        typer.echo(f"nothing to do: this instance stands by, {now.status.holder or 'nobody'} holds the role")
