"""The envelope of a record: in the audit log, and in the memory of the process that wrote it.

Records change the stamps in it: the controller epoch and the event.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from controllerd.record.records import EventBegin, EventEnd, Record, TermRecord

TERM_BEGINS: Final = frozenset({"elected", "renewed"})
"""Changes of the role that begin a term."""
TERM_ENDS: Final = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})
"""Changes of the role that end one."""
NO_TERM: Final = frozenset({"held", "refused"})
"""Changes that begin and end none: the epoch in them is another controller's, or an old one."""


@dataclass(frozen=True, slots=True)
class UnknownRecord(Record):
    """A record of a kind that this version does not know, as a reader may hand it on; never written."""

    kind: ClassVar[str] = "unknown"

    name: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """The fields around the record.

    ``seq`` counts from 1 per ``node`` and ``boot``; ``(cluster, epoch, node, boot, seq)`` orders. ``epoch`` is the
    controller epoch of the writer's term (0: none) and ``event`` the number of the event being handled (0: none).
    ``ts_ms`` is wall clock, for display only; ``mono_ns`` never goes back within a boot.
    ``prev`` is the SHA-256 of the line before, in hex, without its newline.
    """

    v: int
    kind: str
    cluster: str
    node: int
    boot: str
    seq: int
    epoch: int
    event: int
    ts_ms: int
    mono_ns: int
    prev: str


class RecentRecord(NamedTuple):
    """A record that is remembered in memory: when it was written, and by the handler of which event."""

    number: int
    """Counts from 1 since this process started."""
    at_ms: int
    """Wall clock."""
    epoch: int
    """Controller epoch of the term; 0 outside of one."""
    event: int
    """The event's number in the queue; 0 outside of events."""
    event_name: str
    record: Record


def rows_of(record: Record) -> int:
    """Count the partitions (or other rows) that a record has in its columns; 1 for one without columns."""
    columns = getattr(record, "topics", None) or getattr(record, "partitions", None)
    return len(columns) if isinstance(columns, tuple | list) and columns else 1


class Stamps:
    """The controller epoch and the event of the records to come: a record alone does not know them.

    The record that begins a term or an event carries its stamp already, and the record that ends one carries it still.
    So each record is shown twice: to ``before`` when it is about to be stamped, and to ``after`` when it has been.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """The controller epoch; 0 outside a term."""
        self.event = 0
        """The number of the event that is being handled; 0 outside an event."""
        self.event_name = ""

    def before(self, record: Record) -> None:
        """Begin what the record begins."""
        if isinstance(record, EventBegin):
            self.event, self.event_name = record.number, record.name
        elif isinstance(record, TermRecord) and record.change in TERM_BEGINS:
            self.epoch = record.controller_epoch

    def after(self, record: Record) -> None:
        """End what the record ends."""
        if isinstance(record, EventEnd):
            self.event, self.event_name = 0, ""
        elif isinstance(record, TermRecord) and record.change in TERM_ENDS:
            self.epoch = 0
