"""The six figures at the top of the page, and the notices below them."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from controllerd.core.text import counted
from controllerd.explain.answers import clock
from controllerd.explain.brokers import STUCK_S
from controllerd.recent import Recent
from controllerd.record.records import AlarmRecord
from controllerd.status.dashboard.formatting import Level, command, lasting, number, rate
from controllerd.status.schema.status import Status
from controllerd.views import ClusterView

_KNOWING: Final = frozenset({"active", "observer"})
_SLOW_S: Final = 1.0
_ALARMS: Final = 5
_ALARM_AGE_MS: Final = 24 * 3_600_000
_SEARCHED: Final = 5_000
"""So many of the newest records are searched for alarms."""
_QUARANTINED: Final = 20


class Tile(NamedTuple):
    """One figure. ``href`` leads to the list of what is counted."""

    key: str
    label: str
    value: str
    level: Level
    note: str
    href: str


def knows_partitions(status: Status) -> bool:
    """Whether this instance knows the partitions: one that stands by does not."""
    return status.role in _KNOWING


def tiles_of(status: Status) -> list[Tile]:
    """Return the figures in order of how much they matter."""
    return [*(_partitions(status) if knows_partitions(status) else _unknown()), _queue(status)]


def _partitions(status: Status) -> list[Tile]:
    counts, held_up = status.counts, sum(each.held_up_by is not None for each in status.deletions)
    is_bad = counts.offline or counts.waiting  # a new partition without a first leader is no better
    waiting = f"and {number(counts.waiting)} new without a first leader"
    listed = "waiting" if counts.waiting and not counts.offline else "offline"
    rows = (
        (
            "offline",
            counts.offline,
            Level.BAD if is_bad else Level.GOOD,
            waiting if counts.waiting else "partitions without leader",
            f"/?list={listed}#list",
        ),
        (
            "under-replicated",
            counts.under_replicated,
            Level.WARN,
            "partitions that lack copies",
            "/?list=under-replicated#list",
        ),
        (
            "non-preferred",
            counts.non_preferred,
            Level.NOTE,
            "partitions led by another replica",
            "/?list=non-preferred#list",
        ),
        (
            "deleting",
            counts.deleting,
            Level.WARN if held_up else Level.BUSY,
            f"topics, {held_up} of them held up" if held_up else "topics",
            "#deletions",
        ),
        ("reassigning", counts.reassigning, Level.BUSY, "partitions on the move", "#reassignments"),
    )
    return [
        Tile(key, key.capitalize(), number(value), level if value or key == "offline" else Level.GOOD, note, href)
        for key, value, level, note, href in rows
    ]


def _unknown() -> list[Tile]:
    keys = ("offline", "under-replicated", "non-preferred", "deleting", "reassigning")
    return [Tile(key, key.capitalize(), "-", Level.UNKNOWN, "known to the controller", "#instance") for key in keys]


def _queue(status: Status) -> Tile:
    queue = status.queue
    age = max(queue.oldest_age_s, queue.current_running_s)
    level = Level.BAD if age >= STUCK_S else Level.WARN if age >= _SLOW_S else Level.GOOD
    note = f"{queue.current_event} in work" if queue.current_event else "nothing in work"
    waiting = f"{number(queue.depth)} wait, " if queue.depth else ""
    return Tile("queue", "Queue age", lasting(age), level, waiting + note, "#queue")


class Notice(NamedTuple):
    """One line, with a command that tells more or ends it; none: empty."""

    level: Level
    title: str
    text: str
    command: str = ""


def notices_of(snapshot: ClusterView, status: Status, recent: Recent, now_ms: int) -> list[Notice]:
    """Return what must not be overlooked besides the headline: pauses, the throttle, quarantine, alarms."""
    return [
        *_of_operators(snapshot, status, now_ms),
        *_of_instance(status),
        *_quarantined(status),
        *_alarms(recent, now_ms),
    ]


def _of_operators(snapshot: ClusterView, status: Status, now_ms: int) -> Iterator[Notice]:
    """Yield what operators asked for, and will want to be reminded of."""
    for pause in status.pauses:
        until = clock(pause.until_ms, now_ms)
        text = f"by {pause.asked_by or 'somebody'} until {until}{f': {pause.reason}' if pause.reason else ''}"
        yield Notice(Level.WARN, f"{pause.what} is paused", text, command("resume", pause.what))
    throttle = snapshot.throttle
    if throttle is not None:
        moves = counted(len(throttle.partitions), "reassignment")
        text = f"{rate(throttle.rate)} per broker for {moves}, set by {throttle.by or 'somebody'} at "
        text += f"{clock(throttle.set_ms, now_ms)}; it goes away with the last of them"
        yield Notice(Level.WARN, "replication is throttled", text, command("get", "reassignments"))


def _of_instance(status: Status) -> Iterator[Notice]:
    audit = status.audit
    if audit.trouble is not None or audit.records_lost:
        lost = f"{counted(audit.records_lost, 'record')} lost" if audit.records_lost else ""
        text = "; ".join(part for part in (audit.trouble, lost) if part)
        yield Notice(Level.WARN, "the audit log has gaps or cannot be written", text, command("status"))
    for listener in status.uncovered:
        yield Notice(Level.WARN, f"clients on {listener.listener} see no controller", listener.reason)
    for debt in status.debts:
        text = f"{counted(debt.replicas, 'replica')} that nobody assigns to it any more"
        yield Notice(Level.BUSY, f"broker {debt.broker} is to delete", text, command("describe", "broker", debt.broker))
    if status.observed is not None:
        said = ", ".join(f"{partitions} {ruling}" for ruling, partitions in status.observed.items())
        yield Notice(Level.BUSY, "this instance only watches", said or "nothing yet", command("observations"))


def _quarantined(status: Status) -> Iterator[Notice]:
    for broken in status.quarantined[:_QUARANTINED]:
        yield Notice(Level.BAD, f"left alone: {broken.path}", broken.reason, command("doctor"))
    more = len(status.quarantined) - _QUARANTINED
    if more > 0:
        yield Notice(Level.BAD, f"and {counted(more, 'znode')} more", "left alone", command("doctor"))


def _alarms(recent: Recent, now_ms: int) -> Iterator[Notice]:
    found = 0
    for looked_at, entry in enumerate(recent.newest_first()):
        if found == _ALARMS or looked_at == _SEARCHED or now_ms - entry.at_ms > _ALARM_AGE_MS:
            return
        if isinstance(entry.record, AlarmRecord):
            found += 1
            text = f"{entry.record.detail} ({clock(entry.at_ms, now_ms)})"
            yield Notice(Level.WARN, f"alarm: {entry.record.what}", text, command("events", "tail", "--kind", "alarm"))
