"""Plans have old brokers and every action on registrations, and these leave the rest of a plan unchanged."""

from tests.sim.plan import (
    BESIDE_A_BOUNCE,
    FORBIDDEN,
    OURS_ALONE,
    RETURN_IN_NEW_SESSION,
    SETTINGS,
    SHORT_SESSION,
    SWITCH_DIES,
    SWITCH_MOVES,
    TOKENS,
    UNCLEAN_TARGET,
    UNKNOWN_DELETES,
    plan_of,
)
from tests.sim.plan_registration import KINDS
from tests.sim.story_registration import REGISTRATION_ACTS

SEEDS = 400


def test_every_kind_has_an_act_and_is_in_some_story() -> None:
    kinds = {action.kind for seed in range(SEEDS) for action in plan_of(seed).actions}

    assert set(KINDS) == REGISTRATION_ACTS.keys()
    assert REGISTRATION_ACTS.keys() <= kinds


def test_half_of_the_stories_have_neither_old_brokers_nor_such_acts() -> None:
    plain = [
        plan for seed in range(SEEDS) if str((plan := plan_of(seed)).options.registration) == "register=auto, old=[]"
    ]

    assert 0.4 * SEEDS < len(plain) < 0.65 * SEEDS


def test_registrations_leave_the_other_actions_and_their_numbers_alone() -> None:
    seldom = (UNCLEAN_TARGET, BESIDE_A_BOUNCE, SHORT_SESSION, OURS_ALONE, FORBIDDEN, TOKENS, UNKNOWN_DELETES)
    alone = (RETURN_IN_NEW_SESSION, SWITCH_DIES, SWITCH_MOVES)
    added = {*REGISTRATION_ACTS, *SETTINGS, *alone, *(act.kind for act in seldom)}
    for seed in range(50):
        plan, before = plan_of(seed), plan_of(seed, has_old_brokers=False)
        mine = [action for action in plan.actions if action.kind in added]
        assert [action for action in plan.actions if action not in mine] == before.actions
        assert not {action.number for action in mine} & {action.number for action in before.actions}


def test_a_broker_older_than_3_0_wants_a_registration_while_it_lives_unless_it_is_configured_away() -> None:
    options = plan_of(0).options.registration
    options.old, options.register = frozenset({2}), "auto"
    assert options.wants({1, 2})
    assert not options.wants({1})
    options.register = "never"
    assert not options.wants({1, 2})
    options.register = "always"
    assert options.wants(set())
