"""The envelope of a record, in the audit log and in the memory of the process, and the stamps in it.

The stamps are the controller epoch and the event. Some records change them for the records after them.
"""

from dataclasses import dataclass, fields
from typing import ClassVar, Final, NamedTuple, get_origin

from controllerd.record.records import EventBegin, EventEnd, Record, TermRecord

TERM_BEGINS: Final = frozenset({"elected", "renewed"})
"""Changes of the role that begin a term."""
TERM_ENDS: Final = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})
"""Changes of the role that end a term."""
NO_TERM: Final = frozenset({"held", "refused"})
"""Changes that begin and end no term: their epoch is another controller's or an old one."""


@dataclass(frozen=True, slots=True)
class UnknownRecord(Record):
    """A record of a kind that this version does not know. Readers may return it; it is never written."""

    kind: ClassVar[str] = "unknown"

    name: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """The fields of a line around its record.

    ``seq`` counts from 1 per ``node`` and ``boot``; records sort by ``(cluster, epoch, node, boot, seq)``. ``epoch`` is
    the controller epoch of the writer's term (0: none) and ``event`` the number of the event being handled (0: none).
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
    """A record in memory, with its time and with the event during which it was written."""

    number: int
    """The number of the record since the start of this process, from 1."""
    at_ms: int
    """Wall clock, milliseconds since 1970."""
    epoch: int
    """The controller epoch; 0 outside a term."""
    event: int
    """The number of the event; 0 outside an event."""
    event_name: str
    record: Record


def rows_of(record: Record) -> int:
    """Count the rows of a record: the length of its longest column; 1 for a record without columns or rows.

    Memory is bounded by this number, so the columns of every kind count, also those of different lengths.
    """
    return max((1, *(len(getattr(record, name)) for name in _COLUMNS[type(record)])))


class _ColumnNames(dict[type[Record], tuple[str, ...]]):
    """The columns of each type of record, found out with its first record."""

    def __missing__(self, kind: type[Record]) -> tuple[str, ...]:
        names = self[kind] = tuple(each.name for each in fields(kind) if get_origin(each.type) is list)
        return names


_COLUMNS: Final = _ColumnNames()


class Stamps:
    """The controller epoch and the event for the stamps of the next record.

    The record that begins a term or an event already has its stamp, and so has the record that ends one. So each record
    is passed twice: to ``before`` before it is stamped, and to ``after`` afterwards.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """The controller epoch; 0 outside a term."""
        self.event = 0
        """The number of the event that is being handled; 0 outside an event."""
        self.event_name = ""

    def before(self, record: Record) -> None:
        """Begin the term or event that the record begins."""
        if isinstance(record, EventBegin):
            self.event, self.event_name = record.number, record.name
        elif isinstance(record, TermRecord) and record.change in TERM_BEGINS:
            self.epoch = record.controller_epoch

    def after(self, record: Record) -> None:
        """End the term or event that the record ends."""
        if isinstance(record, EventEnd):
            self.event, self.event_name = 0, ""
        elif isinstance(record, TermRecord) and record.change in TERM_ENDS:
            self.epoch = 0
