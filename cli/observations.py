"""``controllerctl observations``: the actions of the observed controller, compared with those of this instance."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connect import client_of
from cli.exit_codes import ExitCode
from cli.output import print_data, print_facts, print_table
from cli.settings import OutputFormat, settings_of

if TYPE_CHECKING:
    from controllerd.status.schema.history import Observations, ObservationsResponse, ObservedPartition, ObservedState

_SHOWN = 20
"""The default number of listed partitions; -o json has the newest 200."""
_RULINGS = ("equal", "different", "unclear", "deliberate", "not judged")
_COLUMNS = ("CAUSE", "PARTITION", "BEFORE", "OURS WOULD", "WAS DONE", "VERDICT")


def observations(
    context: typer.Context,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="NUMBER", min=0, max=200, help="Partitions to list, newest last.")
    ] = _SHOWN,
    check: Annotated[bool, typer.Option("--check", help="Exit with status 1 if the controllers differ.")] = False,
) -> None:
    """Show what the observed controller did, beside what this instance would have done.

    The instance runs with controller.mode = "observe". States are shown as leader/leader epoch and ISR.

    Examples: controllerctl observations · controllerctl observations -n 100 · controllerctl observations --check
    """
    settings = settings_of(context)
    answer = client_of(settings).observations()
    found = answer.content.observations
    latest = found.latest[len(found.latest) - min(last, len(found.latest)) :]
    if settings.wants_json:
        print_data(settings, answer.body)
    elif settings.output is OutputFormat.NAME:
        for one in latest:
            typer.echo(f"{one.topic}-{one.partition}")
    else:
        print_facts(settings, facts(answer.content))
        if found.totals:
            typer.echo()
            print_table(settings, ("CAUSE", *map(str.upper, _RULINGS)), totals(found))
        if latest:
            typer.echo()
            print_table(settings, _COLUMNS, map(row, latest))
    if check and any(total.ruling == "different" for total in found.totals):
        raise typer.Exit(ExitCode.NO)


def facts(answer: "ObservationsResponse") -> Iterator[tuple[str, str]]:
    """Return the lines above the tables."""
    found = answer.observations
    yield "cluster", f"{answer.meta.cluster_id or 'not known yet'}, controller epoch {answer.meta.controller_epoch}"
    yield "looks", f"{found.looks}, {found.torn} left out because the cluster changed while it was read"
    yield "waited for", f"{found.unsettled} causes that have not settled" if found.unsettled else "nothing"
    yield "would lead", f"no: {found.would_refuse}" if found.would_refuse else "yes"
    yield from _listed("not judged", found.not_judged)
    yield from _listed("cannot be seen", found.cannot_be_seen)


def _listed(name: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        yield ("" if number else name), line


def totals(found: "Observations") -> Iterator[tuple[str, ...]]:
    """Return each cause with the partitions of each ruling."""
    counted = {(total.cause, total.ruling): total.partitions for total in found.totals}
    for cause in sorted({total.cause for total in found.totals}):
        yield (cause, *(str(counted.get((cause, ruling), "-")) for ruling in _RULINGS))


def row(partition: "ObservedPartition") -> tuple[str, ...]:
    """Return the line of one partition."""
    return (
        partition.cause,
        f"{partition.topic}-{partition.partition}",
        state(partition.before),
        state(partition.would) if partition.verdict != "not judged" else "-",
        state(partition.after),
        partition.verdict,
    )


def state(found: "ObservedState | None") -> str:
    """Return leader, leader epoch and ISR."""
    return f"{found.leader}/{found.leader_epoch} {found.isr}" if found is not None else "none"
