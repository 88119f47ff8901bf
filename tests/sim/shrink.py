"""Cuts a failing plan down to the actions that it needs to fail."""

from collections.abc import Callable, Iterator
from typing import Final

from tests.sim.plan import Plan
from tests.sim.story import play

_MOST_PLAYS: Final = 300


def broken_rule(plan: Plan) -> str | None:
    """The rule that a plan breaks first, None if it breaks none."""
    violations = play(plan).violations
    return violations[0].id if violations else None


def shrink(
    plan: Plan,
    tell: Callable[[str], None] = lambda _: None,
    broken_by: Callable[[Plan], str | None] = broken_rule,
) -> Plan:
    """The shortest plan found that breaks the rule that this one breaks first; ``plan`` itself if it breaks none."""
    broken = broken_by(plan)
    size, plays = len(plan.actions) // 2, 0
    while broken is not None and size > 0 and plays < _MOST_PLAYS:
        shorter = None
        for candidate in _without_a_part(plan, size):
            plays += 1
            if broken_by(candidate) == broken:
                shorter = candidate
                break
        if shorter is None:
            size //= 2
            continue
        plan = shorter
        size = max(1, min(size, len(plan.actions) // 2))
        tell(f"{len(plan.actions)} actions still break {broken}")
    return plan


def _without_a_part(plan: Plan, size: int) -> Iterator[Plan]:
    for start in range(0, len(plan.actions), size):
        yield plan.with_actions([*plan.actions[:start], *plan.actions[start + size :]])
