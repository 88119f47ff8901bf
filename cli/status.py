"""``controllerctl status``: the active controller, this instance, and what needs attention."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.arguments import parse_duration
from cli.connect import client_of
from cli.lists import repeat_shown
from cli.output import human_duration, print_data, print_facts, print_table
from cli.settings import CliSettings, OutputFormat, settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from controllerd.status.schema.common import Meta
    from controllerd.status.schema.status import BrokerStatus, DeletionStatus, EndedEvent, Status, StatusResponse

_SHOWN = 10
"""Topics to be deleted that are listed; -o json has them all."""
_EVENT_COLUMNS = ("ENDED", "EVENT", "TOOK", "OUTCOME")
_COLUMNS = ("BROKER", "EPOCH", "LISTENERS", "RACK", "QUEUE", "OLDEST", "STATE")


def status(
    context: typer.Context,
    watch_s: Annotated[
        float | None,
        typer.Option(
            "--watch",
            "-w",
            metavar="[SEC]",
            parser=parse_duration,
            help="Repeat every so many seconds.",
        ),
    ] = None,
) -> None:
    """Show the active controller, this instance, and what needs attention; -o wide adds the last events.

    Examples: controllerctl status · controllerctl status -w 2 · controllerctl status -o wide
    """
    settings = settings_of(context)
    repeat_shown(settings, watch_s, lambda line: show(settings, as_line=line))


def show(settings: CliSettings, *, as_line: bool = False) -> None:
    """Print the status once; ``as_line`` makes it one line of JSON."""
    answer = client_of(settings).status()
    if as_line or settings.wants_json:
        print_data(settings, answer.body, one_line=as_line)
        return
    if settings.output is OutputFormat.NAME:
        typer.echo(str(answer.content.status.holder or "nobody"))
        return
    print_facts(settings, facts(answer.content))
    print_brokers(settings, answer.content.status)
    if settings.output is OutputFormat.WIDE and answer.content.status.latest_events:
        typer.echo()
        print_table(settings, _EVENT_COLUMNS, map(row_of_event, answer.content.status.latest_events))


def print_brokers(settings: CliSettings, status: "Status") -> None:
    """Print the live brokers, the missing ones, and the next command where anything needs attention."""
    counts = status.counts
    gone = missing(settings) if counts.offline or counts.under_replicated or counts.waiting else []
    rows = [*(row(broker, status.role) for broker in status.brokers), *map(row_of_gone, gone)]
    if rows:
        typer.echo()
        print_table(settings, _COLUMNS, sorted(rows, key=lambda each: int(each[0])))
    if is_troubled(status):
        typer.echo(settings.to_be_typed("\nnext: controllerctl doctor says what is wrong and what to do"))


def row_of_event(event: "EndedEvent") -> tuple[str, str, str, str]:
    """Return the row of a recent event."""
    return event.at, event.event, human_duration(event.took_ms / 1000), event.error or event.outcome


def is_troubled(status: "Status") -> bool:
    """Return whether anything is wrong that ``controllerctl doctor`` would name."""
    counts = status.counts
    return (
        bool(counts.offline or counts.under_replicated or counts.waiting or status.quarantined)
        or status.holder is None
        or status.audit.trouble is not None
        or bool(status.settings)
        or any(deletion.held_up_by for deletion in status.deletions)
        or any(broker.error for broker in status.brokers)
    )


def missing(settings: CliSettings) -> list[int]:
    """Return the brokers that hold replicas and are not registered. :raises CliError: there is no answer."""
    from controllerd.status.schema.cluster import BrokerList

    return [
        broker.id for broker in client_of(settings).get("/v1/brokers", BrokerList).content.items if not broker.alive
    ]


def facts(answer: "StatusResponse") -> Iterator[tuple[str, str]]:
    """Return the lines above the table of brokers."""
    status, meta = answer.status, answer.meta
    yield "controller", controller_line(status, meta)
    is_daemon = status.node_id >= 0
    yield from identity(status) if is_daemon else [("source", status.reason)]
    yield "cluster", meta.cluster_id or "not known yet"
    yield from activity(status) if is_daemon else ()
    yield "partitions", partitions_line(status)
    yield from record(status) if is_daemon else ()
    for pause in status.pauses:
        yield "paused", f"{pause.what} until {pause.until}, by {pause.asked_by}: {pause.reason or 'no reason given'}"
    for deletion in status.deletions[:_SHOWN]:
        yield "deleting", f"{deletion.topic}: {deletion_line(deletion)}"
    if len(status.deletions) > _SHOWN:
        yield "", f"and {counted(len(status.deletions) - _SHOWN, 'more topic')}"
    for pending in status.pending_deletions:
        yield "to delete", f"{counted(pending.replicas, 'unassigned replica')} on broker {pending.broker}"
    for listener in status.uncovered:
        yield "no controller", f"for clients on {listener.listener}: {listener.reason}"
    for setting in status.settings:
        yield "settings differ", setting.problem
    for broken in status.quarantined:
        yield "quarantined", f"{broken.path}: {broken.reason}"


def identity(status: "Status") -> Iterator[tuple[str, str]]:
    """Return the lines about the identity of this instance."""
    yield "this instance", f"{status.role}: {status.reason}"
    yield "", f"node {status.node_id}, instance {status.instance}, version {status.version}"
    if status.registered:
        yield "", f"registered as /brokers/ids/{status.node_id} for brokers older than 3.0"


def activity(status: "Status") -> Iterator[tuple[str, str]]:
    """Return the lines about the ZooKeeper session and the event queue."""
    yield "zookeeper", f"{status.zookeeper.state}, session {status.zookeeper.session_id or 'none'}"
    yield "events", events_line(status)


def record(status: "Status") -> Iterator[tuple[str, str]]:
    """Return the lines about observations and the audit log."""
    if status.observed is not None:
        yield "observed", observed_line(status.observed)
    trouble = f", in trouble: {status.audit.trouble}" if status.audit.trouble else ""
    yield "audit log", f"{counted(status.audit.records_written, 'record')}, {status.audit.records_lost} lost{trouble}"


def deletion_line(deletion: "DeletionStatus") -> str:
    """Return the reason for which the deletion of a topic waits."""
    if deletion.held_up_by:
        return deletion.held_up_by
    brokers = ", ".join(map(str, deletion.deleting))
    return f"waits for the answer of {brokers}" if brokers else "in progress"


def controller_line(status: "Status", meta: "Meta") -> str:
    """Return the holder of the role and since when."""
    if status.holder is None:
        has_no_session = status.node_id >= 0 and status.zookeeper.state not in {"connected", "suspended"}
        return "not known: this instance has no ZooKeeper session" if has_no_session else "nobody"
    if status.holder.kind == "unknown":
        return str(status.holder)
    held_s = datetime.fromisoformat(meta.generated_at).timestamp() - status.holder.since_ms / 1000
    epoch = f", controller epoch {meta.controller_epoch}" if meta.controller_epoch else ""
    return f"{status.holder}{epoch}, since {status.holder.since} ({human_duration(max(held_s, 0.0))})"


def events_line(status: "Status") -> str:
    """Return the waiting events and the one in progress."""
    queue = status.queue
    current = f", {queue.current_event} in progress for {human_duration(queue.current_running_s)}"
    waiting = f"{queue.depth} wait, the oldest for {human_duration(queue.oldest_age_s)}" if queue.depth else "none wait"
    return waiting + (current if queue.current_event else "")


def partitions_line(status: "Status") -> str:
    """Return the number of partitions, and of partitions that need attention."""
    if status.role not in {"active", "observer"}:
        return "loaded by the active controller only"
    counts = status.counts
    total = f"{counts.partitions} of {counted(counts.topics, 'topic')}"
    attention = {
        "offline": counts.offline,
        "under-replicated": counts.under_replicated,
        "not led by the preferred replica": counts.non_preferred,
        "waiting for brokers": counts.waiting,
        "being reassigned": counts.reassigning,
        "znodes in quarantine": len(status.quarantined),
    }
    named = [f"{number} {what}" for what, number in attention.items() if number]
    return f"{total}: {', '.join(named)}" if named else f"{total}, none needs attention"


def observed_line(observed: Mapping[str, int]) -> str:
    """Return the comparison of the observed controller with this instance."""
    rulings = ", ".join(f"{partitions} {ruling}" for ruling, partitions in observed.items())
    return f"{rulings or 'nothing yet'}; see controllerctl observations"


def row_of_gone(broker: int) -> tuple[str, ...]:
    """Return the row of a broker that holds replicas and is not registered."""
    return (str(broker), "-", "-", "-", "-", "-", "not registered, holds replicas")


def row(broker: "BrokerStatus", role: str) -> tuple[str, ...]:
    """Return the row of a broker; an observer is connected to none."""
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
