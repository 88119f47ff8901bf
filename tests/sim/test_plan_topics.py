"""Plans have calls for topics of every kind, each kind has a function, and calls leave the rest of a plan unchanged."""

from tests.sim.plan import AUDIT, OURS_ALONE, Action, Plan, plan_of
from tests.sim.plan_admin import FIRST_ADMIN
from tests.sim.plan_topics import FIRST_TOPIC_CALL, TOPIC_CALLS
from tests.sim.story_topics import TOPIC_ACTS

SEEDS = 400


def calls(plan: Plan) -> list[Action]:
    return [action for action in plan.actions if FIRST_TOPIC_CALL <= action.number < FIRST_ADMIN]


def test_every_kind_has_an_act() -> None:
    assert set(TOPIC_CALLS) == TOPIC_ACTS.keys()


def test_every_kind_is_called_for_in_some_story() -> None:
    assert {action.kind for seed in range(SEEDS) for action in calls(plan_of(seed))} == set(TOPIC_CALLS)


def test_more_than_half_of_the_stories_have_no_calls_for_topics() -> None:
    without = [seed for seed in range(SEEDS) if not calls(plan_of(seed))]

    assert 0.5 * SEEDS < len(without) < 0.7 * SEEDS


def test_calls_for_topics_leave_the_other_actions_and_their_numbers_alone() -> None:
    for seed in range(50):
        plan, before = plan_of(seed), plan_of(seed, calls_for_topics=False)
        mine = [action for action in plan.actions if action in calls(plan) or action.kind == OURS_ALONE.kind]
        assert [action for action in plan.actions if action not in mine] == before.actions
        assert not {action.number for action in mine} & {action.number for action in before.actions}
        assert AUDIT.kind not in {action.kind for action in mine}
