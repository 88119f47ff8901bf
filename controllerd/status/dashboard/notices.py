"""What must not be overlooked although it is not the matter itself: pauses, the throttle, alarms, quarantine."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from controllerd.core.counted import counted
from controllerd.explain.answers import clock
from controllerd.recent import Recent
from controllerd.record.records import AlarmRecord
from controllerd.status.dashboard.commands import command
from controllerd.status.dashboard.levels import Level
from controllerd.status.dashboard.wording import rate
from controllerd.status.schema.status import Status
from controllerd.views import ClusterView

_ALARMS: Final = 5
_ALARM_AGE_MS: Final = 24 * 3_600_000
_SEARCHED: Final = 5_000
"""So many of the newest records are searched for alarms."""
_QUARANTINED: Final = 20


class Notice(NamedTuple):
    """One line, with a command that tells more or ends it; none: empty."""

    level: Level
    title: str
    text: str
    command: str = ""


def notices_of(snapshot: ClusterView, status: Status, recent: Recent, now_ms: int) -> list[Notice]:
    """The loudest first."""
    return [
        *_held(snapshot, status, now_ms),
        *_of_instance(status),
        *_quarantined(status),
        *_alarms(recent, now_ms),
    ]


def _held(snapshot: ClusterView, status: Status, now_ms: int) -> Iterator[Notice]:
    """What operators asked for, and will want to be reminded of."""
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
