"""One line in the daemon's own log for each event that did something: the event, its topics and its brokers.

Never a line per partition: those are in the audit log. Under systemd the line's fields are found by
``journalctl KAFKA_TOPIC=payments``.
"""

from dataclasses import dataclass, field
from typing import Final

import structlog

from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import (
    EventBegin,
    EventEnd,
    Record,
    TermRecord,
)

log = structlog.get_logger(__name__)

MAX_NAMED: Final = 32
"""Topics and partitions that one line names; it says how many more there are."""


@dataclass(slots=True)
class _EventEffects:
    """The topics, partitions and brokers that an event has touched so far."""

    topics: set[str] = field(default_factory=set)
    partitions: set[int] = field(default_factory=set)
    """Of any topic; they are named only where there is one topic."""
    brokers: set[int] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Add what the description of the record's kind says."""
        touched = DESCRIPTIONS[type(record)].touched
        if touched is not None:
            topics, partitions, brokers = touched(record)
            self.topics.update(topics)
            self.partitions.update(partitions)
            self.brokers.update(brokers)


class EventSummaries:
    """Writes a line about each event to the daemon's log. Subscribes to records."""

    takes: Final = frozenset(record for record, kind in DESCRIPTIONS.items() if kind.touched is not None) | {
        TermRecord,
        EventBegin,
        EventEnd,
    }

    def __init__(self) -> None:
        self._epoch = 0
        self._effects = _EventEffects()

    def record(self, *records: Record) -> None:
        """Collect what they touch, and write the line at the end of the event."""
        for record in records:
            if isinstance(record, TermRecord) and record.change in TERM_BEGINS:
                self._epoch = record.controller_epoch
            elif isinstance(record, EventBegin):
                self._effects = _EventEffects()
            elif isinstance(record, EventEnd):
                self._write_line(record)
            else:
                self._effects.add(record)

    def _write_line(self, end: EventEnd) -> None:
        effects, self._effects = self._effects, _EventEffects()
        write = log.info if effects.topics or effects.brokers else log.debug
        write(
            "event handled",
            event_id=end.number,
            event_name=end.name,
            outcome=end.outcome,
            epoch=self._epoch,
            took_ms=round(end.took_ms, 1),
            **_named("topics", effects.topics),
            **_named("brokers", effects.brokers),
            **(_named("partitions", effects.partitions) if len(effects.topics) == 1 else {}),
        )


def _named(what: str, values: set[str] | set[int]) -> dict[str, object]:
    """The first of them in order, and how many more there are."""
    named = {what: sorted(values)[:MAX_NAMED]} if values else {}
    more = len(values) - MAX_NAMED
    return {**named, f"more_{what}": more} if more > 0 else dict(named)
