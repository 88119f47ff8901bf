"""Elections as tables: who is assigned, in sync and online, and who leads then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.election import (
    Elected,
    LeaderEpochExhausted,
    bump_leader_epoch,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassign,
    initial_leadership,
    next_leadership,
    shrink_isr,
)
from controllerd.core.model import MAX_LEADER_EPOCH, NO_LEADER, BrokerId, LeaderAndIsr, LeaderRecoveryState

RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def online(*numbers: int) -> set[BrokerId]:
    return set(ids(*numbers))


def clean(leader: int, *isr: int) -> Elected:
    return Elected(BrokerId(leader), ids(*isr))


def state(leader: int, *isr: int, leader_epoch: int = 4, recovery: LeaderRecoveryState = RECOVERED) -> LeaderAndIsr:
    return LeaderAndIsr(
        BrokerId(leader), leader_epoch, ids(*isr), controller_epoch=7, partition_epoch=9, recovery_state=recovery
    )


@pytest.mark.parametrize(
    ("assignment", "isr", "live", "expected"),
    [
        pytest.param(ids(1, 2, 3), ids(1, 2, 3), online(1, 2, 3), clean(1, 1, 2, 3), id="all online"),
        pytest.param(ids(1, 2, 3), ids(1, 2, 3), online(2, 3), clean(2, 2, 3), id="the leader is dead"),
        pytest.param(ids(1, 2, 3), ids(3, 2, 1), online(2, 3), clean(2, 3, 2), id="the ISR keeps its order"),
        pytest.param(ids(3, 1, 2), ids(1, 2, 3), online(1, 2, 3), clean(3, 1, 2, 3), id="assignment order decides"),
        pytest.param(ids(1, 2, 3), ids(3), online(1, 2, 3), clean(3, 3), id="only the ISR counts"),
        pytest.param(ids(1, 2), ids(2, 9), online(2, 9), clean(2, 2, 9), id="an ISR member that is not assigned"),
        pytest.param(ids(1, 2, 3), ids(1), online(2, 3), None, id="no ISR member online"),
        pytest.param(ids(1, 2, 3), ids(), online(1, 2, 3), None, id="empty ISR"),
        pytest.param(ids(1, 2), ids(9), online(1, 2, 9), None, id="no ISR member assigned"),
        pytest.param(ids(1, 2), ids(1, 2), online(), None, id="nobody online"),
        pytest.param(ids(), ids(1), online(1), None, id="no replicas"),
    ],
)
def test_offline_election_that_must_be_clean(
    assignment: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: set[BrokerId], expected: Elected | None
) -> None:
    assert elect_offline(assignment, isr, live, unclean_allowed=False, leader_recovery=True) == expected


@pytest.mark.parametrize(
    ("assignment", "isr", "live", "expected"),
    [
        pytest.param(ids(1, 2, 3), ids(2, 3), online(1, 2), clean(2, 2), id="clean while it can be"),
        pytest.param(
            ids(1, 2, 3), ids(1), online(2, 3), Elected(BrokerId(2), ids(2), RECOVERING, unclean=True), id="outside"
        ),
        pytest.param(
            ids(1, 2), ids(), online(1), Elected(BrokerId(1), ids(1), RECOVERING, unclean=True), id="empty ISR"
        ),
        pytest.param(ids(1, 2), ids(1), online(3), None, id="only strangers online"),
    ],
)
def test_offline_election_that_may_be_unclean(
    assignment: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: set[BrokerId], expected: Elected | None
) -> None:
    assert elect_offline(assignment, isr, live, unclean_allowed=True, leader_recovery=True) == expected


def test_an_unclean_election_keeps_the_recovery_state_where_brokers_do_not_know_it() -> None:
    elected = elect_offline(ids(1, 2), ids(1), online(2), unclean_allowed=True, leader_recovery=False)

    assert elected == Elected(BrokerId(2), ids(2), None, unclean=True)


@pytest.mark.parametrize(
    ("target", "isr", "live", "expected"),
    [
        pytest.param(ids(3, 4), ids(1, 3, 4), online(1, 3, 4), clean(3, 1, 3, 4), id="first of the target"),
        pytest.param(ids(3, 4), ids(1, 2, 4), online(1, 3, 4), clean(4, 1, 2, 4), id="the dead stay in the ISR"),
        pytest.param(ids(3, 4), ids(1, 2), online(1, 2, 3, 4), None, id="no target replica in sync"),
        pytest.param(ids(3, 4), ids(3, 4), online(1), None, id="no target replica online"),
    ],
)
def test_reassign_election(
    target: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: set[BrokerId], expected: Elected | None
) -> None:
    assert elect_reassign(target, isr, live) == expected


@pytest.mark.parametrize(
    ("assignment", "isr", "live", "expected"),
    [
        pytest.param(ids(1, 2), ids(2, 1), online(1, 2), clean(1, 2, 1), id="online and in sync"),
        pytest.param(ids(1, 2, 3), ids(1, 3), online(1), clean(1, 1, 3), id="the dead stay in the ISR"),
        pytest.param(ids(1, 2), ids(2), online(1, 2), None, id="not in sync"),
        pytest.param(ids(1, 2), ids(1, 2), online(2), None, id="not online"),
        pytest.param(ids(), ids(1), online(1), None, id="no replicas"),
    ],
)
def test_preferred_election(
    assignment: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: set[BrokerId], expected: Elected | None
) -> None:
    assert elect_preferred(assignment, isr, live) == expected


@pytest.mark.parametrize(
    ("isr", "reachable", "leaving", "expected"),
    [
        pytest.param(ids(1, 2, 3), online(1, 2, 3), online(1), clean(2, 2, 3), id="the leader leaves"),
        pytest.param(ids(1, 2, 3), online(1, 2, 3), online(1, 2), clean(3, 3), id="all that leave, leave the ISR"),
        pytest.param(ids(1, 2, 3), online(1, 3), online(1), clean(3, 2, 3), id="a dead member stays in the ISR"),
        pytest.param(ids(1), online(1, 2, 3), online(1), None, id="nobody else in sync"),
        pytest.param(ids(1, 2), online(1, 3), online(1), None, id="nobody else in sync is online"),
        pytest.param(ids(1, 2), online(1, 2), online(1, 2), None, id="everybody leaves"),
    ],
)
def test_controlled_shutdown_election(
    isr: tuple[BrokerId, ...], reachable: set[BrokerId], leaving: set[BrokerId], expected: Elected | None
) -> None:
    assert elect_controlled_shutdown(ids(1, 2, 3), isr, reachable, leaving) == expected


broker_ids = st.integers(0, 5).map(BrokerId)
some_brokers = st.lists(broker_ids, unique=True, max_size=5).map(tuple)


@given(some_brokers, some_brokers, st.sets(broker_ids), st.booleans())
def test_an_elected_leader_is_assigned_and_online_and_in_its_isr(
    assignment: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: set[BrokerId], unclean_allowed: bool
) -> None:
    elected = elect_offline(assignment, isr, live, unclean_allowed=unclean_allowed, leader_recovery=True)

    if elected is None:
        assert not (set(assignment) & live & set(isr))
    else:
        assert elected.leader in assignment
        assert elected.leader in elected.isr
        assert set(elected.isr) <= live
        assert elected.unclean == (elected.leader not in isr)


@pytest.mark.parametrize(
    ("stored", "elected", "kept"),
    [(RECOVERED, None, RECOVERED), (RECOVERING, None, RECOVERING), (RECOVERED, RECOVERING, RECOVERING)],
)
def test_the_stored_recovery_state_is_kept_unless_the_election_sets_one(
    stored: LeaderRecoveryState, elected: LeaderRecoveryState | None, kept: LeaderRecoveryState
) -> None:
    after = next_leadership(state(1, 1, 2, recovery=stored), Elected(BrokerId(2), ids(2), elected), 8)

    assert after == LeaderAndIsr(BrokerId(2), 5, ids(2), 8, 9, kept)


def test_a_leader_epoch_at_its_maximum_is_never_wrapped() -> None:
    last = state(1, 1, 2, leader_epoch=MAX_LEADER_EPOCH)

    assert next_leadership(last, clean(2, 2), 8) == LeaderEpochExhausted(MAX_LEADER_EPOCH)
    assert shrink_isr(last, BrokerId(1), 8) == LeaderEpochExhausted(MAX_LEADER_EPOCH)
    assert bump_leader_epoch(last, 8) == LeaderEpochExhausted(MAX_LEADER_EPOCH)


def test_the_last_but_one_leader_epoch_still_moves() -> None:
    after = next_leadership(state(1, 1, 2, leader_epoch=MAX_LEADER_EPOCH - 1), clean(2, 2), 8)

    assert isinstance(after, LeaderAndIsr)
    assert after.leader_epoch == MAX_LEADER_EPOCH


def test_a_bump_changes_only_the_two_epochs() -> None:
    assert bump_leader_epoch(state(1, 1, 2), 8) == state(1, 1, 2)._replace(leader_epoch=5, controller_epoch=8)


@pytest.mark.parametrize(
    ("before", "leader", "isr"),
    [
        pytest.param(state(1, 1, 2, 3), NO_LEADER, ids(2, 3), id="the leader goes"),
        pytest.param(state(2, 3, 1, 2), BrokerId(2), ids(3, 2), id="a follower goes"),
        pytest.param(state(1, 1), NO_LEADER, ids(1), id="the last member stays in the ISR but leads no more"),
        pytest.param(state(-1, 1), NO_LEADER, ids(1), id="the last member, already without leader"),
        pytest.param(state(2, 1), BrokerId(2), ids(1), id="the last member, while another leads"),
        pytest.param(state(1, 1, 2, recovery=RECOVERING), NO_LEADER, ids(2), id="the recovery state is kept"),
    ],
)
def test_an_offline_replica_leaves_the_isr(before: LeaderAndIsr, leader: BrokerId, isr: tuple[BrokerId, ...]) -> None:
    expected = before._replace(leader=leader, isr=isr, leader_epoch=5, controller_epoch=8)

    assert shrink_isr(before, BrokerId(1), 8) == expected


def test_a_replica_outside_the_isr_changes_nothing() -> None:
    assert shrink_isr(state(1, 1, 2), BrokerId(3), 8) is None


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (online(1, 2, 3), LeaderAndIsr(BrokerId(3), 0, ids(3, 1, 2), 8, 0)),
        (online(1, 2), LeaderAndIsr(BrokerId(1), 0, ids(1, 2), 8, 0)),
        (online(9), None),
    ],
)
def test_a_new_partition_starts_with_its_online_replicas(live: set[BrokerId], expected: LeaderAndIsr | None) -> None:
    assert initial_leadership(ids(3, 1, 2), live, 8) == expected
