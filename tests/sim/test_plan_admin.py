"""Plans have requests of every kind, each kind has a function, and requests leave the rest of a plan unchanged."""

from tests.sim.plan import AUDIT, Plan, plan_of
from tests.sim.plan_admin import ADMIN, FIRST_ADMIN
from tests.sim.story_admin import ADMIN_ACTS

SEEDS = 400


def requests(plan: Plan) -> list[str]:
    return [action.kind for action in plan.actions if action.number >= FIRST_ADMIN]


def test_every_kind_has_an_act() -> None:
    assert set(ADMIN) == ADMIN_ACTS.keys()


def test_every_kind_is_asked_for_in_some_story() -> None:
    assert {kind for seed in range(SEEDS) for kind in requests(plan_of(seed))} == set(ADMIN)


def test_about_half_of_the_stories_have_no_requests_and_an_ordinary_cluster() -> None:
    without = [plan for seed in range(SEEDS) if not requests(plan := plan_of(seed))]

    assert 0.4 * SEEDS < len(without) < 0.6 * SEEDS
    assert {str(plan.options.admin) for plan in without} == {"deletes=True, log_dirs=1, mends=True"}


def test_requests_leave_the_other_actions_and_their_numbers_alone() -> None:
    for seed in range(50):
        plan = plan_of(seed)
        numbers = [action.number for action in plan.actions if action.number < FIRST_ADMIN]
        assert len(set(numbers)) == len(numbers)
        assert requests(plan_of(seed)) == requests(plan)


def test_about_a_quarter_of_the_stories_have_audits() -> None:
    """A self-audit would hide a lost watch, so that most stories have none."""
    audited = [seed for seed in range(SEEDS) if any(action.kind == AUDIT.kind for action in plan_of(seed).actions)]

    assert 0.15 * SEEDS < len(audited) < 0.35 * SEEDS
