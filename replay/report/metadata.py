"""The metadata of a report: the inputs, the engine, the limits of its numbers, and the checked invariants."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controllerd.record.invariants import RULES, SUMMARY, is_checkable_in_summaries

Row = Mapping[str, object]
Tables = Mapping[str, Sequence[Row]]
"""Rows by the name of their table, columns as in ``replay.facts.tables``."""

SEVERITIES: Final = ("critical", "error", "warning")
"""From the worst to the mildest; others come after them."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant that was checked, violated or not; ``question`` is its question for operators."""

    id: str
    title: str
    severity: str
    question: str


@dataclass(frozen=True, slots=True)
class ReportMetadata:
    """The origin of the tables. Times are milliseconds since 1970."""

    generated_ms: int
    version: str
    """Version of this project."""
    engine: str
    """``local`` or ``spark``."""
    inputs: tuple[str, ...]
    """Files and folders as they were named."""
    records: int
    first_ms: int | None = None
    """Moment of the first record; None without records."""
    last_ms: int | None = None
    open_with: tuple[str, ...] | None = None
    """The logs for ``controllerctl replay at`` and ``why``; None: the inputs. Empty: they cannot read these logs."""
    options: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    """Sentences on the limits of these logs, such as bounds of windows."""
    invariants: tuple[Invariant, ...] = ()
    """All that were checked; empty: none could be."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that the engine left out, by table."""

    @property
    def logs(self) -> tuple[str, ...]:
        """Return the logs for commands that show more."""
        return self.inputs if self.open_with is None else self.open_with


def severity_rank(severity: str) -> int:
    """Return the sort key of a severity, the worst first."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def all_invariants() -> tuple[Invariant, ...]:
    """Return one invariant per id; rules that share an id are one invariant."""
    rules = {rule.id: rule for rule in reversed(RULES)}
    return tuple(Invariant(rule.id, rule.title, rule.severity, rule.question) for _, rule in sorted(rules.items()))


def checkable_at(levels: Collection[str]) -> tuple[Invariant, ...]:
    """Return the invariants that logs of these levels (``audit.level``) can show: a summary lacks facts for some."""
    if set(levels) != {SUMMARY}:
        return all_invariants()
    unchecked = {rule.id for rule in RULES if not is_checkable_in_summaries(rule)}
    return tuple(each for each in all_invariants() if each.id not in unchecked)
