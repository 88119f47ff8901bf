"""The envelope of a record: in the audit log, and in the memory of the process that wrote it."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from controllerd.record.records import Record


@dataclass(frozen=True, slots=True)
class UnknownRecord(Record):
    """A record of a kind that this version does not know, as a reader may hand it on; never written."""

    kind: ClassVar[str] = "unknown"

    name: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the writer puts around every record.

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
