"""The findings of a verification: the kinds of harm to a log, and their places."""

from enum import Enum
from typing import NamedTuple


class Harm(Enum):
    """A kind of harm to the log."""

    DAMAGED = "damaged"
    """Bytes that are no line of the log stand where lines should be."""
    EDITED = "edited"
    """A line is whole, but what comes after it was written after another content."""
    DELETED = "deleted"
    """Lines are missing between others."""
    TRUNCATED = "truncated"
    """Lines are missing at the end of a segment, of a boot, or of the log."""
    REORDERED = "reordered"
    """Lines are whole and stand in the wrong place."""
    DUPLICATED = "duplicated"
    """Lines stand there twice, word for word; nothing is lost."""
    FORKED = "forked"
    """A number has two contents, or the history is another one than the exported head's."""
    ROLLED_BACK = "rolled back"
    """The log is an older copy of what it was when the head was exported, or goes on from one."""
    FOREIGN = "foreign"
    """Lines of another cluster or node."""


class Place(NamedTuple):
    """Where a line stands; places sort in the order of the log."""

    number: int
    """Of the segment."""
    segment: str
    line: int


class Finding(NamedTuple):
    """One harm with the numbers that are lost or doubtful.

    ``last_seq`` None: to the end of that boot; one less than ``first_seq``: none.
    """

    harm: Harm
    boot: str
    first_seq: int
    last_seq: int | None
    segment: str
    """Empty where an exported head shows it."""
    line: int
    detail: str

    def __str__(self) -> str:
        where = f" at {self.segment} line {self.line}" if self.segment else ""
        return f"{self.harm.value}: {self.numbers}{where}: {self.detail}"

    @property
    def numbers(self) -> str:
        """The range for people."""
        if self.last_seq is not None and self.last_seq < self.first_seq:
            return f"nothing lost before seq {self.first_seq} of boot {self.boot}"
        return f"seq {self.first_seq}..{'?' if self.last_seq is None else self.last_seq} of boot {self.boot}"

    def covers(self, boot: str, seq: int) -> bool:
        """Whether it names this number."""
        return boot == self.boot and self.first_seq <= seq and (self.last_seq is None or seq <= self.last_seq)


def found(harm: Harm, numbers: tuple[str, int, int | None], place: Place | None, detail: str) -> Finding:
    """A finding about ``(boot, first, last)``."""
    boot, first, last = numbers
    return Finding(harm, boot, first, last, place.segment if place else "", place.line if place else 0, detail)
