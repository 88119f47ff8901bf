"""What the writer of the audit log puts around every record, and what a reader makes of kinds it does not know."""

from dataclasses import dataclass
from typing import ClassVar

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
