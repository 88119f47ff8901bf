"""The algebra of reassignments, in examples and for any lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment
from controllerd.core.reassignment import (
    cancelled,
    dropped,
    is_caught_up,
    loss_by_dropping,
    may_complete,
    not_live,
    reassign_to,
    target_problem,
)

Brokers = tuple[BrokerId, ...]


def ids(*brokers: int) -> Brokers:
    return tuple(BrokerId(broker) for broker in brokers)


def moving(replicas: Brokers, adding: Brokers = (), removing: Brokers = ()) -> ReplicaAssignment:
    return ReplicaAssignment(replicas, adding, removing)


replicas = st.lists(st.integers(0, 9).map(BrokerId), min_size=1, max_size=6, unique=True).map(tuple)
assignments = st.builds(lambda origin, target: reassign_to(ReplicaAssignment(origin), target), replicas, replicas)


# -- on the way --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "target", "expected"),
    [
        (ids(1), ids(2), moving(ids(2, 1), ids(2), ids(1))),
        (ids(1, 2), ids(2, 3), moving(ids(2, 3, 1), ids(3), ids(1))),
        (ids(1, 2, 3), ids(4, 5, 6), moving(ids(4, 5, 6, 1, 2, 3), ids(4, 5, 6), ids(1, 2, 3))),
        (ids(1, 2, 3), ids(3, 4, 2), moving(ids(3, 4, 2, 1), ids(4), ids(1))),
        (ids(1), ids(1, 2), moving(ids(1, 2), ids(2))),
        (ids(1, 2), ids(2), moving(ids(2, 1), (), ids(1))),
        (ids(1, 2, 3), ids(2, 3, 1), moving(ids(2, 3, 1))),
        (ids(1, 2), ids(1, 2), moving(ids(1, 2))),
    ],
)
def test_the_target_comes_first_and_what_will_go_follows(
    origin: Brokers, target: Brokers, expected: ReplicaAssignment
) -> None:
    assert reassign_to(ReplicaAssignment(origin), target) == expected


def test_a_change_of_mind_keeps_the_origin() -> None:
    under_way = reassign_to(ReplicaAssignment(ids(1, 2)), ids(2, 3))

    assert reassign_to(under_way, ids(2, 4)) == moving(ids(2, 4, 1), ids(4), ids(1))


def test_a_cancellation_may_lose_the_order_of_the_origin() -> None:
    assert cancelled(reassign_to(ReplicaAssignment(ids(1, 2, 3)), ids(3, 4, 2))) == moving(ids(3, 2, 1))


@given(assignments, replicas)
def test_origin_and_target_follow_from_the_lists(current: ReplicaAssignment, target: Brokers) -> None:
    after = reassign_to(current, target)

    assert after.target == target
    assert set(after.origin) == set(current.origin)
    assert len(set(after.replicas)) == len(after.replicas)
    assert set(after.replicas) == {*current.origin, *target}


@given(assignments, replicas)
def test_what_is_added_was_not_there_and_what_is_removed_is_not_wanted(
    current: ReplicaAssignment, target: Brokers
) -> None:
    after = reassign_to(current, target)

    assert set(after.adding) == set(target) - set(current.origin)
    assert set(after.removing) == set(current.origin) - set(target)


@given(assignments, replicas)
def test_the_same_target_twice_changes_nothing_more(current: ReplicaAssignment, target: Brokers) -> None:
    once = reassign_to(current, target)

    assert reassign_to(once, target) == once


@given(assignments)
def test_after_a_cancellation_nothing_is_under_way_and_every_replica_of_the_origin_is_there(
    current: ReplicaAssignment,
) -> None:
    after = cancelled(current)

    assert not after.is_being_reassigned
    assert set(after.replicas) == set(current.origin)


@given(assignments, replicas)
def test_a_change_of_mind_drops_only_what_was_being_added(current: ReplicaAssignment, target: Brokers) -> None:
    assert set(dropped(current, reassign_to(current, target))) <= set(current.adding)


# -- completion --------------------------------------------------------------------------------------------------------

UNDER_WAY = reassign_to(ReplicaAssignment(ids(1, 2)), ids(2, 3))


def test_a_target_has_caught_up_when_all_of_it_is_in_sync_whatever_else_is() -> None:
    assert is_caught_up(UNDER_WAY, ids(1, 2, 3))
    assert not is_caught_up(UNDER_WAY, ids(1, 2))


def test_a_target_without_an_online_replica_is_waited_for() -> None:
    assert may_complete(UNDER_WAY, ids(1, 2, 3), ids(1, 3))
    assert not may_complete(UNDER_WAY, ids(1, 2, 3), ids(1))


def test_where_nothing_is_added_or_removed_nothing_is_waited_for() -> None:
    assert may_complete(ReplicaAssignment(ids(1, 2)), (), ())


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ((), "Empty replica list specified in partition reassignment."),
        (ids(1, 2, 1), "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 2, 1)"),
        (ids(1, -2), "Invalid broker id in replica list: ArrayBuffer(1, -2)"),
        (ids(1, 2_000_000_007), "controllerd itself has no replicas: ArrayBuffer(1, 2000000007)"),
        (ids(1, 2), None),
    ],
)
def test_targets_that_can_never_be(target: Brokers, problem: str | None) -> None:
    assert target_problem(target) == problem


def test_only_replicas_that_are_new_need_be_live() -> None:
    assert not_live(ReplicaAssignment(ids(1, 2)), ids(2, 3, 4), {BrokerId(3)}) == ids_list(4)


def test_a_replica_that_is_only_being_added_is_new_as_well_if_its_broker_is_gone() -> None:
    """The peer compares with the origin (``validateReplicas`` of 3.9)."""
    under_way = reassign_to(ReplicaAssignment(ids(1)), ids(2))

    assert not_live(under_way, ids(2, 3), {BrokerId(1), BrokerId(3)}) == ids_list(2)


def ids_list(*brokers: int) -> list[BrokerId]:
    return list(ids(*brokers))


def led_by(leader: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), 3, ids(*isr), 1, 5)


ORIGIN = ReplicaAssignment(ids(1, 2))


def test_a_replica_that_is_not_in_sync_may_always_be_dropped() -> None:
    assert loss_by_dropping(ids(3, 4), ORIGIN, led_by(1, 1, 2), ()) is None


def test_the_leader_may_be_dropped_if_another_that_is_in_sync_and_online_remains_kafka_14808() -> None:
    assert loss_by_dropping(ids(3), ORIGIN, led_by(3, 3, 1), ids(1, 3)) is None


def test_the_leader_may_not_be_dropped_if_no_remaining_in_sync_replica_is_online_kafka_14808() -> None:
    assert loss_by_dropping(ids(3), ORIGIN, led_by(3, 3, 1), ids(2, 3)) == (
        "leader 3 would be removed, and no in-sync replica that remains is online: [1]"
    )


def test_the_last_replica_that_is_in_sync_is_never_dropped_kafka_14808() -> None:
    loss = loss_by_dropping(ids(3), ORIGIN, led_by(-1, 3), ids(1, 2))

    assert loss == "no in-sync replica would remain: the ISR is [3]"


def test_a_partition_without_leader_loses_nothing_by_a_new_target() -> None:
    assert loss_by_dropping(ids(3), ORIGIN, led_by(-1, 3, 1), ()) is None
