"""The six figures at the top: how many, how bad, and where the list is."""

from typing import Final, NamedTuple

from controllerd.explain.brokers import STUCK_S
from controllerd.status.dashboard.levels import Level
from controllerd.status.dashboard.wording import lasting, number
from controllerd.status.schema.status import PartitionCounts, Status

_KNOWING: Final = frozenset({"active", "observer"})
_SLOW_S: Final = 1.0


class Tile(NamedTuple):
    """One figure. ``href`` leads to what is counted."""

    key: str
    label: str
    value: str
    level: Level
    note: str
    href: str


def knows(status: Status) -> bool:
    """Whether this instance knows the partitions: one that stands by does not."""
    return status.role in _KNOWING


def tiles_of(status: Status) -> list[Tile]:
    """In order of how much they matter."""
    return [*(_partitions(status) if knows(status) else _unknown()), _queue(status)]


def _partitions(status: Status) -> list[Tile]:
    counts = status.counts
    held_up = sum(doomed.held_up_by is not None for doomed in status.deletions)
    return [
        _offline(counts),
        _tile(
            "under-replicated",
            "Under-replicated",
            counts.under_replicated,
            Level.WARN,
            "partitions that lack copies",
            "/?list=under-replicated#list",
        ),
        _tile(
            "non-preferred",
            "Non-preferred",
            counts.non_preferred,
            Level.NOTE,
            "partitions led by another replica",
            "/?list=non-preferred#list",
        ),
        _tile(
            "deleting",
            "Deleting",
            counts.deleting,
            Level.WARN if held_up else Level.BUSY,
            f"topics, {held_up} of them held up" if held_up else "topics",
            "#deletions",
        ),
        _tile("reassigning", "Reassigning", counts.reassigning, Level.BUSY, "partitions on the move", "#reassignments"),
    ]


def _offline(counts: PartitionCounts) -> Tile:
    """New partitions that nobody has led yet are no better."""
    waiting = f"and {number(counts.waiting)} new without a first leader"
    note = waiting if counts.waiting else "partitions without leader"
    level = Level.BAD if counts.offline or counts.waiting else Level.GOOD
    listed = "waiting" if counts.waiting and not counts.offline else "offline"
    return Tile("offline", "Offline", number(counts.offline), level, note, f"/?list={listed}#list")


def _tile(key: str, label: str, value: int, if_any: Level, note: str, href: str) -> Tile:
    return Tile(key, label, number(value), if_any if value else Level.GOOD, note, href)


def _unknown() -> list[Tile]:
    labels = ("Offline", "Under-replicated", "Non-preferred", "Deleting", "Reassigning")
    note = "known to the controller"
    return [Tile(label.lower(), label, "-", Level.UNKNOWN, note, "#instance") for label in labels]


def _queue(status: Status) -> Tile:
    queue = status.queue
    age = max(queue.oldest_age_s, queue.current_running_s)
    level = Level.BAD if age >= STUCK_S else Level.WARN if age >= _SLOW_S else Level.GOOD
    note = f"{queue.current_event} in work" if queue.current_event else "nothing in work"
    waiting = f"{number(queue.depth)} wait, " if queue.depth else ""
    return Tile("queue", "Queue age", lasting(age), level, waiting + note, "#queue")
