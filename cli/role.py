"""``controllerctl takeover`` and ``resign``: move the role on purpose, after saying what will happen."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.asking import confirm, refuse_observer, uninterrupted
from cli.output import human_duration, print_json, print_struct
from cli.settings import Settings, settings_of

if TYPE_CHECKING:
    from controllerd.status.schema import StatusResponse


def takeover(
    context: typer.Context,
    remember: Annotated[
        bool, typer.Option("--remember", help="From now on take the role from brokers unasked, after every start, too.")
    ] = False,
) -> None:
    """Make this instance the active controller, whoever is it now.

    Examples: controllerctl takeover --reason "first trial" · controllerctl takeover --yes -o json
    """
    settings = settings_of(context)
    client = settings.client()
    before = client.status().content
    refuse_observer(before)
    is_held = before.status.role == "active"
    if is_held and not remember:
        _report_held_already(settings, before)
        return
    consequences = () if is_held else _consequences_of_takeover(before)
    if remember:
        consequences += ("from now on, after every start too, it takes the role from brokers without being asked",)
    confirm(settings, f"takeover in cluster {before.meta.cluster_id or 'not known yet'}", *consequences)
    answer = uninterrupted(lambda: client.takeover(settings.reason, remember=remember))
    if settings.wants_json:
        print_json(answer.body)
        return
    done = answer.content
    if is_held:
        typer.echo(f"remembered; the role was held already, with controller epoch {done.epoch_after}")
        return
    typer.echo(
        f"role taken from {done.held_by} in {human_duration(done.took_s)}: "
        f"controller epoch {done.epoch_before} -> {done.epoch_after}"
    )


def resign(context: typer.Context) -> None:
    """Make this instance give the role away and stand by.

    Examples: controllerctl resign --reason "kernel upgrade" · controllerctl resign --yes
    """
    settings = settings_of(context)
    client = settings.client()
    before = client.status().content
    refuse_observer(before)
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
        print_json(answer.body)
    else:
        typer.echo(f"role given away in {human_duration(answer.content.took_s)}; controllerctl status shows who has it")


def _consequences_of_takeover(before: "StatusResponse") -> tuple[str, ...]:
    node, holder = before.status.node_id, before.status.holder or "nobody"
    return (
        f"controllerd {node} takes the role from {holder}, in one transaction; the controller epoch grows by one",
        "it then loads the cluster and sends every broker its state",
    )


def _report_held_already(settings: Settings, now: "StatusResponse") -> None:
    from controllerd.status.schema import TakeoverResponse

    epoch, holder = now.meta.controller_epoch, f"controllerd {now.status.node_id}"
    if settings.wants_json:
        print_struct(TakeoverResponse(epoch_before=epoch, epoch_after=epoch, held_by=holder, took_s=0.0))
    else:
        typer.echo(f"nothing to do: {holder} holds the role already, with controller epoch {epoch}")


def _report_not_held(settings: Settings, now: "StatusResponse") -> None:
    from controllerd.status.schema import ResignResponse

    if settings.wants_json:
        print_struct(ResignResponse(took_s=0.0))
    else:
        typer.echo(f"nothing to do: this instance stands by, {now.status.holder or 'nobody'} holds the role")
