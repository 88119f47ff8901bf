"""The six figures at the top of the page, and the notices below them."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from controllerd.core.text import counted
from controllerd.explain.answers import clock
from controllerd.explain.brokers import STUCK_S
from controllerd.recent import Recent
from controllerd.record.records import AlarmRecord
from controllerd.status.dashboard.formatting import Severity, command, duration, number, rate
from controllerd.status.schema.status import Status
from controllerd.views import ClusterView

_WITH_PARTITIONS: Final = frozenset({"active", "observer"})
_SLOW_S: Final = 1.0
_ALARMS: Final = 5
_ALARM_AGE_MS: Final = 24 * 3_600_000
_SEARCHED: Final = 5_000
"""The number of newest records that are searched for alarms."""
_QUARANTINED: Final = 20


class Tile(NamedTuple):
    """One figure. ``href``: the list of what it counts."""

    key: str
    label: str
    value: str
    severity: Severity
    note: str
    href: str


def knows_partitions(status: Status) -> bool:
    """Whether this instance knows the partitions; a standby does not."""
    return status.role in _WITH_PARTITIONS


def tiles_of(status: Status) -> list[Tile]:
    """Return the figures, the most important first."""
    return [*(_partitions(status) if knows_partitions(status) else _unknown()), _queue(status)]


def _partitions(status: Status) -> list[Tile]:
    counts, held_up = status.counts, sum(each.held_up_by is not None for each in status.deletions)
    # A new partition without a first leader is as critical as an offline one.
    offline = Severity.CRITICAL if counts.offline or counts.waiting else Severity.OK
    waiting = f"and {number(counts.waiting)} new without a first leader"
    without_leader = waiting if counts.waiting else "partitions without leader"
    listed = "waiting" if counts.waiting and not counts.offline else "offline"
    lagging, others = "partitions with replicas outside the ISR", "partitions led by another replica"
    deleting = Severity.WARNING if held_up else Severity.INFO
    topics = f"topics, {held_up} of them held up" if held_up else "topics"
    rows = (
        ("offline", counts.offline, offline, without_leader, f"/?list={listed}#list"),
        ("under-replicated", counts.under_replicated, Severity.WARNING, lagging, "/?list=under-replicated#list"),
        ("non-preferred", counts.non_preferred, Severity.INFO, others, "/?list=non-preferred#list"),
        ("deleting", counts.deleting, deleting, topics, "#deletions"),
        ("reassigning", counts.reassigning, Severity.INFO, "partitions that move", "#reassignments"),
    )
    return [
        Tile(key, key.capitalize(), number(value), severity if value or key == "offline" else Severity.OK, note, href)
        for key, value, severity, note, href in rows
    ]


def _unknown() -> list[Tile]:
    keys = ("offline", "under-replicated", "non-preferred", "deleting", "reassigning")
    note = "known to the active controller"
    return [Tile(key, key.capitalize(), "-", Severity.UNKNOWN, note, "#instance") for key in keys]


def _queue(status: Status) -> Tile:
    queue = status.queue
    age = max(queue.oldest_age_s, queue.current_running_s)
    severity = Severity.CRITICAL if age >= STUCK_S else Severity.WARNING if age >= _SLOW_S else Severity.OK
    note = f"{queue.current_event} running" if queue.current_event else "no running event"
    waiting = f"{number(queue.depth)} wait, " if queue.depth else ""
    return Tile("queue", "Queue age", duration(age), severity, waiting + note, "#queue")


class Notice(NamedTuple):
    """One line, with a command that shows more or ends it; empty without one."""

    severity: Severity
    title: str
    text: str
    command: str = ""


def notices_of(snapshot: ClusterView, status: Status, recent: Recent, now_ms: int) -> list[Notice]:
    """Return the notices: pauses, the throttle, quarantine, alarms and others."""
    return [
        *_of_operators(snapshot, status, now_ms),
        *_of_instance(snapshot, status),
        *_quarantined(status),
        *_alarms(recent, now_ms),
    ]


def _of_operators(snapshot: ClusterView, status: Status, now_ms: int) -> Iterator[Notice]:
    """Yield the pauses and the throttle that operators set."""
    for pause in status.pauses:
        until = clock(pause.until_ms, now_ms)
        why = f": {pause.reason}" if pause.reason else ""
        text = f"by {pause.asked_by or 'an unknown operator'} until {until}{why}"
        yield Notice(Severity.WARNING, f"{pause.what} is paused", text, command("resume", pause.what))
    throttle = snapshot.throttle
    if throttle is not None:
        moves = counted(len(throttle.partitions), "reassignment")
        text = f"{rate(throttle.rate)} per broker for {moves}, set by {throttle.by or 'an unknown operator'} at "
        text += f"{clock(throttle.set_ms, now_ms)}; it is removed with the last of them"
        yield Notice(Severity.WARNING, "replication is throttled", text, command("get", "reassignments"))


def _of_instance(snapshot: ClusterView, status: Status) -> Iterator[Notice]:
    audit = status.audit
    if audit.trouble is not None or audit.records_lost:
        lost = f"{counted(audit.records_lost, 'record')} lost" if audit.records_lost else ""
        text = "; ".join(part for part in (audit.trouble, lost) if part)
        yield Notice(Severity.WARNING, "the audit log has gaps or cannot be written", text, command("status"))
    for listener in status.uncovered:
        yield Notice(Severity.WARNING, f"clients on {listener.listener} see no controller", listener.reason)
    for broker, replicas in sorted(snapshot.pending_deletions.items()):
        text = f"{counted(replicas, 'replica')} that are no longer assigned to it"
        yield Notice(Severity.INFO, f"broker {broker} must delete", text, command("describe", "broker", broker))
    if status.observed is not None:
        totals = ", ".join(f"{partitions} {ruling}" for ruling, partitions in status.observed.items())
        text = totals or "no comparisons yet"
        yield Notice(Severity.INFO, "this instance is an observer", text, command("observations"))


def _quarantined(status: Status) -> Iterator[Notice]:
    for broken in status.quarantined[:_QUARANTINED]:
        yield Notice(Severity.CRITICAL, f"left alone: {broken.path}", broken.reason, command("doctor"))
    more = len(status.quarantined) - _QUARANTINED
    if more > 0:
        yield Notice(Severity.CRITICAL, f"and {counted(more, 'znode')} more", "left alone", command("doctor"))


def _alarms(recent: Recent, now_ms: int) -> Iterator[Notice]:
    found = 0
    for searched, entry in enumerate(recent.newest_first()):
        if found == _ALARMS or searched == _SEARCHED or now_ms - entry.at_ms > _ALARM_AGE_MS:
            return
        if isinstance(entry.record, AlarmRecord):
            found += 1
            text = f"{entry.record.detail} ({clock(entry.at_ms, now_ms)})"
            yield Notice(
                Severity.WARNING,
                f"alarm: {entry.record.what}",
                text,
                command("events", "tail", "--kind", "alarm"),
            )
