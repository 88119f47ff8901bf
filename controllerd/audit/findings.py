"""Findings of a verification: kinds of harm to a log, the place in the log, and the numbers concerned."""

from enum import Enum
from typing import NamedTuple


class Harm(Enum):
    """A kind of harm to the log."""

    DAMAGED = "damaged"
    """There are bytes that are no line of the log between its lines."""
    EDITED = "edited"
    """A line is complete, but the hash in the next line is that of another content."""
    DELETED = "deleted"
    """Lines are missing between others."""
    TRUNCATED = "truncated"
    """Lines are missing at the end of a segment, of a boot, or of the log."""
    REORDERED = "reordered"
    """Lines are complete, but in the wrong place."""
    DUPLICATED = "duplicated"
    """Lines are in the log twice, identical; nothing is lost."""
    FORKED = "forked"
    """A number has two contents, or the history differs from the one that the exported head belongs to."""
    ROLLED_BACK = "rolled back"
    """The log is, or continues from, a copy that is older than the exported head."""
    FOREIGN = "foreign"
    """Lines of another cluster or node."""


class LinePlace(NamedTuple):
    """The place of a line. Places sort in the order of the log."""

    number: int
    """The number of the segment."""
    segment: str
    line: int


class AuditFinding(NamedTuple):
    """One kind of harm, with the numbers of the records that are lost or in doubt.

    ``last_seq`` None means: to the end of that boot. ``last_seq`` one less than ``first_seq`` means: no number.
    """

    harm: Harm
    boot: str
    first_seq: int
    last_seq: int | None
    segment: str
    """Empty if only an exported head shows the harm."""
    line: int
    detail: str

    def __str__(self) -> str:
        where = f" at {self.segment} line {self.line}" if self.segment else ""
        return f"{self.harm.value}: {self.numbers}{where}: {self.detail}"

    @property
    def numbers(self) -> str:
        """The range of numbers as a text."""
        if self.last_seq is not None and self.last_seq < self.first_seq:
            return f"nothing lost before seq {self.first_seq} of boot {self.boot}"
        return f"seq {self.first_seq}..{'?' if self.last_seq is None else self.last_seq} of boot {self.boot}"

    def covers(self, boot: str, seq: int) -> bool:
        """Whether the finding names this number."""
        return boot == self.boot and self.first_seq <= seq and (self.last_seq is None or seq <= self.last_seq)


def found(harm: Harm, numbers: tuple[str, int, int | None], place: LinePlace | None, detail: str) -> AuditFinding:
    """Make a finding about the numbers ``(boot, first, last)``."""
    boot, first, last = numbers
    return AuditFinding(harm, boot, first, last, place.segment if place else "", place.line if place else 0, detail)
