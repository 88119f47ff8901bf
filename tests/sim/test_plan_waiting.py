"""Some plans have a deletion that waits for a reassignment, and what seeds had before stays as it was."""

from tests.sim.plan import WAITING, plan_of
from tests.sim.story_waiting import WAITING_ACTS

SEEDS = 400


def test_the_kind_has_an_act() -> None:
    assert {WAITING} == WAITING_ACTS.keys()


def test_about_three_of_ten_stories_have_it_once() -> None:
    counts = [[action.kind for action in plan_of(seed).actions].count(WAITING) for seed in range(SEEDS)]

    assert set(counts) == {0, 1}
    assert 0.2 * SEEDS < sum(counts) < 0.4 * SEEDS


def test_it_leaves_the_numbers_of_the_other_actions_alone() -> None:
    for seed in range(50):
        mine = [action.number for action in plan_of(seed).actions if action.kind == WAITING]
        others = [action.number for action in plan_of(seed).actions if action.kind != WAITING]
        assert set(mine).isdisjoint(others)
