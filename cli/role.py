"""``controllerctl takeover`` and ``resign``: move the role on purpose, after saying what will happen."""

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from cli.asking import confirm, refuse_unfit, uninterrupted
from cli.output import print_data, print_value
from cli.settings import Settings, settings_of
from cli.units import human_duration

if TYPE_CHECKING:
    from cli.client import Client
    from controllerd.status.schema.status import StatusResponse

_SUCCESSOR_S: Final = 5.0
"""So long it is looked who leads after a resignation."""
_LOOK_EVERY_S: Final = 0.02


def takeover(
    context: typer.Context,
    holder: Annotated[
        Literal["any", "broker", "instance"],
        typer.Option("--from", metavar="broker|instance", help="Refuse when the holder is of the other kind."),
    ] = "any",
    remember: Annotated[
        bool, typer.Option("--remember", help="From now on take the role from brokers unasked, after every start, too.")
    ] = False,
) -> None:
    """Make this instance the active controller, whoever is it now: in one transaction, so that there is no gap.

    Examples: controllerctl takeover --from broker --reason "first trial" · controllerctl takeover --yes -o json
    """
    settings = settings_of(context)
    client = settings.changing_client()
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
        consequences += ("from now on, after every start too, it takes the role from brokers without being asked",)
    confirm(settings, f"takeover in cluster {before.meta.cluster_id or 'not known yet'}", *consequences)
    answer = uninterrupted(lambda: client.takeover(settings.reason, remember=remember, holder=holder))
    if settings.wants_json:
        print_data(settings, answer.body)
        return
    done = answer.content
    if is_held:
        typer.echo(f"remembered; the role was held already, with controller epoch {done.epoch_after}")
        return
    typer.echo(
        f"role taken from {done.held_by} in {human_duration(done.took_s)}, without a gap: "
        f"controller epoch {done.epoch_before} -> {done.epoch_after}"
    )


def resign(context: typer.Context) -> None:
    """Make this instance give the role away and stand by.

    Examples: controllerctl resign --reason "kernel upgrade" · controllerctl resign --yes
    """
    settings = settings_of(context)
    client = settings.changing_client()
    before = client.status().content
    refuse_unfit(settings, before)
    if before.status.role == "standby":
        _report_not_held(settings, before)
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
        given, after = human_duration(answer.content.took_s), _successor(client, before.meta.controller_epoch)
        typer.echo(f"role given away in {given}, with controller epoch {before.meta.controller_epoch}; {after}")


def _successor(client: "Client", epoch: int) -> str:
    """Who leads next, and for how long nobody did."""
    began = time.monotonic()
    while (gap_s := time.monotonic() - began) < _SUCCESSOR_S:
        now = client.status().content
        if now.status.holder is not None and now.status.role != "active":
            after = f", controller epoch {epoch} -> {now.meta.controller_epoch}" * (now.meta.controller_epoch > epoch)
            return f"{now.status.holder} leads {human_duration(gap_s)} later{after}"
        time.sleep(_LOOK_EVERY_S)
    return f"nobody leads after {human_duration(_SUCCESSOR_S)}: controllerctl status, controllerctl doctor"


def _consequences_of_takeover(before: "StatusResponse") -> tuple[str, ...]:
    node, holder = before.status.node_id, before.status.holder or "nobody"
    return (
        f"controllerd {node} takes the role from {holder}, in one transaction; the controller epoch grows by one",
        "it then loads the cluster and sends every broker its state",
    )


def _report_held_already(settings: Settings, now: "StatusResponse") -> None:
    from controllerd.status.schema.admin import TakeoverResponse

    epoch, holder = now.meta.controller_epoch, f"controllerd {now.status.node_id}"
    if settings.wants_json:
        print_value(settings, TakeoverResponse(epoch_before=epoch, epoch_after=epoch, held_by=holder, took_s=0.0))
    else:
        typer.echo(f"nothing to do: {holder} holds the role already, with controller epoch {epoch}")


def _report_not_held(settings: Settings, now: "StatusResponse") -> None:
    from controllerd.status.schema.admin import ResignResponse

    if settings.wants_json:
        print_value(settings, ResignResponse(took_s=0.0))
    else:
        typer.echo(f"nothing to do: this instance stands by, {now.status.holder or 'nobody'} holds the role")
