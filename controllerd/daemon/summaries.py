"""One line in the daemon's own log for each event that did something: what, to which topics and brokers.

Never a line per partition: those are in the audit log. Under systemd the line's fields are found by
``journalctl KAFKA_TOPIC=payments``.
"""

from dataclasses import dataclass, field
from typing import Final

import structlog

from controllerd.daemon.tap import Tap
from controllerd.ports import AuditLog
from controllerd.record.records import (
    AssignmentRecord,
    BrokersRecord,
    DeletionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
)

log = structlog.get_logger(__name__)

MAX_NAMED: Final = 32
"""Topics and partitions that one line names; it says how many more there are."""
_PER_PARTITION: Final = (
    AssignmentRecord,
    LeadershipRecord,
    PartitionStateRecord,
    ReassignmentRecord,
    RefusedRecord,
)


@dataclass(slots=True)
class _Seen:
    """What an event has touched so far."""

    topics: set[str] = field(default_factory=set)
    partitions: set[int] = field(default_factory=set)
    """Of any topic; they are named only where there is one topic."""
    brokers: set[int] = field(default_factory=set)

    @property
    def anything(self) -> bool:
        return bool(self.topics or self.brokers)


class EventSummaries(Tap):
    """An audit log that tells the daemon's log what each event did. Passes everything on."""

    def __init__(self, audit: AuditLog) -> None:
        super().__init__(audit)
        self._epoch = 0
        self._seen = _Seen()

    def look(self, record: Record) -> None:
        """See ``Tap``."""
        match record:
            case EventBegin():
                self._seen = _Seen()
            case EventEnd():
                self._tell(record)
            case TermRecord(change="elected" | "renewed"):
                self._epoch = record.controller_epoch
            case BrokersRecord():
                self._seen.brokers.update(row.id for row in record.live)
                self._seen.brokers.update(record.gone, record.shutting_down)
            case TopicsRecord() | TopicsForgotten():
                self._seen.topics.update(record.names)
            case DeletionRecord():
                self._seen.topics.update(record.topics)
            case _ if isinstance(record, _PER_PARTITION):
                self._seen.topics.update(record.topics)
                self._seen.partitions.update(record.partitions)
            case _:
                pass

    def _tell(self, end: EventEnd) -> None:
        seen, self._seen = self._seen, _Seen()
        tell = log.info if seen.anything else log.debug
        tell(
            "event",
            event_id=end.number,
            event_name=end.name,
            outcome=end.outcome,
            epoch=self._epoch,
            took_ms=round(end.took_ms, 1),
            **_named("topics", seen.topics),
            **_named("brokers", seen.brokers),
            **(_named("partitions", seen.partitions) if len(seen.topics) == 1 else {}),
        )


def _named(what: str, values: set[str] | set[int]) -> dict[str, object]:
    """The first of them in order, and how many more there are."""
    named = {what: sorted(values)[:MAX_NAMED]} if values else {}
    more = len(values) - MAX_NAMED
    return {**named, f"more_{what}": more} if more > 0 else dict(named)
