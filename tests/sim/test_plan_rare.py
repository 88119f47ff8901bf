"""Actions that few plans have, each from a stream of its own, so that the rest of a plan is unchanged."""

import pytest

from tests.sim.plan import (
    BESIDE_A_BOUNCE,
    FORBIDDEN,
    OURS_ALONE,
    RETURN,
    RETURN_IN_NEW_SESSION,
    SHORT_SESSION,
    SWITCH_DIES,
    SWITCH_MOVES,
    TOKENS,
    UNCLEAN_TARGET,
    UNKNOWN_DELETES,
    WAITING,
    plan_of,
)
from tests.sim.story_late import LATE_ACTS
from tests.sim.story_settings import SETTINGS_ACTS
from tests.sim.story_waiting import WAITING_ACTS

SEEDS = 400
SHARES = {
    WAITING.kind: 0.3,
    UNCLEAN_TARGET.kind: 0.1,
    BESIDE_A_BOUNCE.kind: 0.1,
    FORBIDDEN.kind: 0.1,
    SHORT_SESSION.kind: 0.1,
    UNKNOWN_DELETES.kind: 0.08,
    OURS_ALONE.kind: 0.1,
    SWITCH_MOVES: 0.1,
    SWITCH_DIES: 0.1,
    RETURN.kind: 0.08,
    RETURN_IN_NEW_SESSION: 0.08,
}
"""Shares of the stories that have the action."""


def test_each_of_them_has_an_act() -> None:
    assert SHARES.keys() <= LATE_ACTS.keys() | WAITING_ACTS.keys() | SETTINGS_ACTS.keys()


@pytest.mark.parametrize("kind", SHARES)
def test_about_as_many_stories_as_intended_have_it_once(kind: str) -> None:
    counts = [[action.kind for action in plan_of(seed).actions].count(kind) for seed in range(SEEDS)]

    assert set(counts) == {0, 1}
    assert 0.5 * SHARES[kind] * SEEDS < sum(counts) < 1.5 * SHARES[kind] * SEEDS


@pytest.mark.parametrize("kind", SHARES)
def test_it_leaves_the_numbers_of_the_other_actions_alone(kind: str) -> None:
    for seed in range(50):
        mine = [action.number for action in plan_of(seed).actions if action.kind == kind]
        others = [action.number for action in plan_of(seed).actions if action.kind != kind]
        assert set(mine).isdisjoint(others)


def test_one_of_ten_stories_has_tokens_that_expire_several_times() -> None:
    counts = [[action.kind for action in plan_of(seed).actions].count(TOKENS.kind) for seed in range(SEEDS)]

    assert set(counts) == {0, 4}
    assert 0.05 * SEEDS < counts.count(4) < 0.15 * SEEDS
