"""The invariants that a replay of audit logs checks, as the report lists them."""

from collections.abc import Collection

from controllerd.record.invariants import RULES, SUMMARY, is_told_by_summaries
from replay.report.meta import Invariant


def all_invariants() -> tuple[Invariant, ...]:
    """One per id; rules that share an id are one invariant."""
    rules = {rule.id: rule for rule in reversed(RULES)}
    return tuple(Invariant(rule.id, rule.title, rule.severity, rule.question) for _, rule in sorted(rules.items()))


def told_by(levels: Collection[str]) -> tuple[Invariant, ...]:
    """Those that can be told from logs of these levels (``audit.level``): a summary lacks what some rest on."""
    if set(levels) != {SUMMARY}:
        return all_invariants()
    untold = {rule.id for rule in RULES if not is_told_by_summaries(rule)}
    return tuple(each for each in all_invariants() if each.id not in untold)
