"""``controllerctl status``: who leads, how this instance does, and what needs attention."""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exit_codes import CliError, ExitCode
from cli.output import clear_screen, human_duration, note, print_facts, print_json, print_table
from cli.settings import Settings, parse_duration, settings_of

if TYPE_CHECKING:
    from controllerd.status.schema import BrokerStatus, DeletionStatus, Meta, Status, StatusResponse

_SHOWN = 10
"""Topics to be deleted that are listed; -o json has them all."""
_COLUMNS = ("BROKER", "EPOCH", "LISTENERS", "RACK", "QUEUE", "OLDEST", "STATE")


def status(
    context: typer.Context,
    watch_s: Annotated[
        float | None,
        typer.Option(
            "--watch", "-w", metavar="SEC", parser=parse_duration, help="Show it again every so many seconds."
        ),
    ] = None,
) -> None:
    """Show who leads, how this instance does, and what needs attention.

    Examples: controllerctl status · controllerctl status -w 2 · controllerctl status -o json
    """
    settings = settings_of(context)
    if watch_s is None:
        show(settings)
    else:
        watch(settings, watch_s)


def show(settings: Settings, *, as_line: bool = False) -> None:
    """One picture; ``as_line`` makes it one line of JSON."""
    answer = settings.client().status()
    if as_line or settings.wants_json:
        print_json(answer.body, one_line=as_line)
        return
    print_facts(settings, facts(answer.content))
    if answer.content.status.brokers:
        typer.echo()
        rows = (row(broker, answer.content.status.role) for broker in answer.content.status.brokers)
        print_table(settings, _COLUMNS, rows)


def watch(settings: Settings, every_s: float) -> None:
    """Picture after picture until Ctrl-C: redrawn on a terminal, lines of JSON elsewhere."""
    on_terminal = sys.stdout.isatty() and not settings.wants_json
    try:
        while True:
            if on_terminal:
                clear_screen()
            try:
                show(settings, as_line=not on_terminal)
            except CliError as error:
                if error.code is not ExitCode.UNREACHABLE:
                    raise
                note(str(error))  # a watch outlives the restart of the daemon
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt as stop:
        raise typer.Exit(ExitCode.INTERRUPTED) from stop


def facts(answer: "StatusResponse") -> Iterator[tuple[str, str]]:
    """The lines above the table of brokers."""
    status, meta = answer.status, answer.meta
    yield "this instance", f"{status.role}: {status.reason}"
    yield "", f"node {status.node_id}, instance {status.instance}, version {status.version}"
    yield "controller", controller_line(status, meta)
    yield "cluster", meta.cluster_id or "not known yet"
    session = status.zookeeper
    yield "zookeeper", f"{session.state}, session {session.session_id or 'none'}"
    yield "events", events_line(status)
    yield "partitions", partitions_line(status)
    if status.observed is not None:
        yield "observed", observed_line(status.observed)
    audit = status.audit
    trouble = f", in trouble: {audit.trouble}" if audit.trouble else ""
    yield "audit log", f"{audit.records_written} records, {audit.records_lost} lost{trouble}"
    for doomed in status.deletions[:_SHOWN]:
        yield "deleting", f"{doomed.topic}: {deletion_line(doomed)}"
    if len(status.deletions) > _SHOWN:
        yield "", f"and {len(status.deletions) - _SHOWN} more topics"
    for debt in status.debts:
        yield "owed", f"broker {debt.broker} is to delete {debt.replicas} replicas that nobody assigns to it"
    for listener in status.uncovered:
        yield "no controller", f"for clients on {listener.listener}: {listener.reason}"
    for broken in status.quarantined:
        yield "quarantined", f"{broken.path}: {broken.reason}"


def deletion_line(deletion: "DeletionStatus") -> str:
    """What the deletion of a topic waits for."""
    if deletion.held_up_by:
        return deletion.held_up_by
    brokers = ", ".join(map(str, deletion.deleting))
    return f"waits for the answer of {brokers}" if brokers else "under way"


def controller_line(status: "Status", meta: "Meta") -> str:
    """Who holds the role and for how long."""
    if status.holder is None:
        return "nobody"
    if status.holder.kind == "unknown":
        return str(status.holder)
    held_s = datetime.fromisoformat(meta.generated_at).timestamp() - status.holder.since_ms / 1000
    epoch = f", controller epoch {meta.controller_epoch}" if meta.controller_epoch else ""
    return f"{status.holder}{epoch}, since {status.holder.since} ({human_duration(max(held_s, 0.0))})"


def events_line(status: "Status") -> str:
    """What waits and what is in work."""
    queue = status.queue
    current = f", {queue.current_event} in work for {human_duration(queue.current_running_s)}"
    waiting = f"{queue.depth} wait, the oldest for {human_duration(queue.oldest_age_s)}" if queue.depth else "none wait"
    return waiting + (current if queue.current_event else "")


def partitions_line(status: "Status") -> str:
    """How many partitions there are and how many need attention."""
    if status.role not in {"active", "observer"}:
        return "loaded by the active controller only"
    counts = status.counts
    total = f"{counts.partitions} of {counts.topics} topics"
    attention = {
        "offline": counts.offline,
        "under-replicated": counts.under_replicated,
        "not led by the preferred replica": counts.non_preferred,
        "waiting for brokers": counts.waiting,
        "znodes in quarantine": len(status.quarantined),
    }
    named = [f"{number} {what}" for what, number in attention.items() if number]
    return f"{total}: {', '.join(named)}" if named else f"{total}, none needs attention"


def observed_line(observed: Mapping[str, int]) -> str:
    """How what was done compares with what this instance would have done."""
    counted = ", ".join(f"{partitions} {ruling}" for ruling, partitions in observed.items())
    return f"{counted or 'nothing yet'}; see controllerctl observations"


def row(broker: "BrokerStatus", role: str) -> tuple[str, ...]:
    """One broker's line of the table; who observes talks to none."""
    listeners = " ".join(f"{one.name}://{one.host}:{one.port}" for one in broker.listeners)
    if role == "observer":
        state = "registered"
    elif broker.error:
        state = f"unreachable: {broker.error}"
    elif broker.shutting_down:
        state = "shutting down"
    else:
        state = "connected" if broker.connected else "connecting"
    oldest = human_duration(broker.queue_oldest_age_s) if broker.queue_depth else "-"
    return (
        str(broker.id),
        str(broker.broker_epoch),
        listeners,
        broker.rack or "-",
        str(broker.queue_depth),
        oldest,
        state,
    )
