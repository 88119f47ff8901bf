"""What a report says about itself: what was read, by what, and how far its numbers can be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Row = Mapping[str, object]
Tables = Mapping[str, Sequence[Row]]
"""Rows by the name of their table, columns as in ``replay.facts.tables``."""

SEVERITIES: Final = ("critical", "error", "warning")
"""From the worst to the mildest; others come after them."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """Something that must hold and was looked for, violated or not; ``question`` is what an operator asks by it."""

    id: str
    title: str
    severity: str
    question: str


@dataclass(frozen=True, slots=True)
class Meta:
    """Where the tables come from. Moments are milliseconds since 1970."""

    generated_ms: int
    version: str
    """Of this project."""
    engine: str
    """``local`` or ``spark``."""
    inputs: tuple[str, ...]
    """Files and folders as they were named."""
    records: int
    first_ms: int | None = None
    """Moment of the first record; None without records."""
    last_ms: int | None = None
    open_with: tuple[str, ...] | None = None
    """The logs that ``controllerctl replay at`` and ``why`` are to be given to look closer; None: the inputs. Empty:
    those commands cannot read these logs."""
    options: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    """Sentences on what these logs cannot tell, such as bounds of windows."""
    invariants: tuple[Invariant, ...] = ()
    """All that were checked; empty: none could be."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that the engine left out, by table."""

    @property
    def logs(self) -> tuple[str, ...]:
        """What commands that look closer are given."""
        return self.inputs if self.open_with is None else self.open_with


def severity_rank(severity: str) -> int:
    """Orders severities, the worst first."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
