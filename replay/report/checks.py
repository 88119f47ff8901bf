"""The invariants that a replay of audit logs checks, as the report lists them."""

from replay.invariants import RULES
from replay.report.meta import Invariant


def all_invariants() -> tuple[Invariant, ...]:
    """One per id; rules that share an id are one invariant."""
    rules = {rule.id: rule for rule in reversed(RULES)}
    return tuple(Invariant(rule.id, rule.title, rule.severity, rule.question) for _, rule in sorted(rules.items()))
