"""Some plans have a controller of a broker that starts a topic on an instance; seeds of before stay as they were."""

from tests.sim.plan import OURS_ALONE, plan_of
from tests.sim.story_late import LATE_ACTS

SEEDS = 400


def test_the_kind_has_an_act() -> None:
    assert OURS_ALONE in LATE_ACTS


def test_about_one_of_ten_stories_has_it_once() -> None:
    counts = [[action.kind for action in plan_of(seed).actions].count(OURS_ALONE) for seed in range(SEEDS)]

    assert set(counts) == {0, 1}
    assert 0.05 * SEEDS < sum(counts) < 0.15 * SEEDS


def test_it_leaves_the_other_actions_alone() -> None:
    for seed in range(50):
        mine = [action.number for action in plan_of(seed).actions if action.kind == OURS_ALONE]
        others = [action.number for action in plan_of(seed).actions if action.kind != OURS_ALONE]
        assert set(mine).isdisjoint(others)
