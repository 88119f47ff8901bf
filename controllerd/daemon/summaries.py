"""Writes one line into the daemon's own log for each event with an effect: the event, its topics and its brokers.

Single partitions are in the audit log only. Under systemd, ``journalctl KAFKA_TOPIC=payments`` finds lines by their
fields.
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
"""The most topics or partitions that one line names; it counts the others."""


@dataclass(slots=True)
class _EventEffects:
    """The topics, partitions and brokers that the event has changed so far."""

    topics: set[str] = field(default_factory=set)
    partitions: set[int] = field(default_factory=set)
    """Partitions of any topic. The line names them only if there is one topic."""
    brokers: set[int] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Add the topics, partitions and brokers that the description of the record's kind names."""
        touched = DESCRIPTIONS[type(record)].touched
        if touched is not None:
            topics, partitions, brokers = touched(record)
            self.topics.update(topics)
            self.partitions.update(partitions)
            self.brokers.update(brokers)


class EventSummaries:
    """A subscriber of records that writes a line about each event into the daemon's log."""

    takes: Final = frozenset(record for record, kind in DESCRIPTIONS.items() if kind.touched is not None) | {
        TermRecord,
        EventBegin,
        EventEnd,
    }

    def __init__(self) -> None:
        self._epoch = 0
        self._effects = _EventEffects()

    def record(self, *records: Record) -> None:
        """Collect the effects of the records, and write the line at the end of the event."""
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
    """The first values in order, and the number of the others."""
    named = {what: sorted(values)[:MAX_NAMED]} if values else {}
    more = len(values) - MAX_NAMED
    return {**named, f"more_{what}": more} if more > 0 else dict(named)
