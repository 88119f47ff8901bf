"""Plans of reassignments, from given views."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controllerd.core.model import Broker, BrokerId, PartitionState, ReplicaAssignment
from controllerd.core.replica_sizes import ReplicaSize, SizesView
from controllerd.planning.plans import Plan, ReassignmentPlanRequest
from controllerd.planning.replicas import ReassignmentPlanner
from controllerd.views import DeletionView, PartitionView, TopicView

Racks = Mapping[int, str | None]


def topic(name: str, *replicas: Sequence[int], offline: Sequence[int] = ()) -> TopicView:
    """A topic with one partition for each list of replicas."""
    views = [
        PartitionView(
            number,
            PartitionState.ONLINE,
            ReplicaAssignment(tuple(map(BrokerId, each))),
            None,
            tuple(BrokerId(broker) for broker in each if broker in offline),
        )
        for number, each in enumerate(replicas)
    ]
    return TopicView(name, None, tuple(views))


def plan(request: ReassignmentPlanRequest, racks: Racks, *topics: TopicView) -> Plan:
    """The plan for these topics on live brokers with these racks."""
    brokers = {BrokerId(broker): Broker(BrokerId(broker), 1, (), rack) for broker, rack in racks.items()}
    planner = ReassignmentPlanner(request, brokers, brokers.keys())
    for _ in planner.plan(topics):
        pass
    return planner.result()


def moved(found: Plan) -> dict[str, tuple[list[int], list[int]]]:
    """The replicas before and after, by partition."""
    return {f"{move.topic}-{move.partition}": (move.before, move.after) for move in found.moves}


NO_RACKS: Racks = dict.fromkeys((1, 2, 3, 4))


def test_only_replicas_that_must_leave_are_replaced_at_their_position() -> None:
    found = plan(ReassignmentPlanRequest(from_brokers=[2]), NO_RACKS, topic("t", [1, 2], [3, 4], [2, 3]))

    assert moved(found) == {"t-0": ([1, 2], [1, 4]), "t-2": ([2, 3], [4, 3])}
    assert (found.replicas_moved, found.leaders_moved, found.bytes) == (2, 1, None)


def test_the_broker_with_fewest_replicas_is_chosen_and_planned_replicas_count() -> None:
    found = plan(ReassignmentPlanRequest(from_brokers=[1]), NO_RACKS, topic("t", [1], [1], [1]), topic("u", [2]))

    assert [after for _, after in moved(found).values()] == [[3], [4], [2]]


def test_a_replacement_goes_to_a_rack_that_has_no_other_replica() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b", 5: "c"}

    found = plan(ReassignmentPlanRequest(from_brokers=[2]), racks, topic("t", [1, 2]), topic("busy", *[[5]] * 9))

    assert moved(found) == {"t-0": ([1, 2], [1, 4])}


def test_racks_are_ignored_on_request_or_if_some_brokers_have_none() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    full = topic("busy", [4], [4])

    unaware = plan(ReassignmentPlanRequest(from_brokers=[2], rack_aware=False), racks, topic("t", [1, 2]), full)
    mixed = plan(ReassignmentPlanRequest(from_brokers=[2]), {**racks, 3: None}, topic("t", [1, 2]), full)

    assert moved(unaware) == moved(mixed) == {"t-0": ([1, 2], [1, 3])}
    assert any("racks are ignored" in note for note in mixed.notes)


def test_only_topics_that_are_named_are_moved() -> None:
    topics = [topic(name, [1]) for name in ("orders", "orders-eu", "audit")]

    assert list(moved(plan(ReassignmentPlanRequest(topics=["ord*"], from_brokers=[1]), NO_RACKS, *topics))) == [
        "orders-0",
        "orders-eu-0",
    ]
    assert "no topic matches x*" in plan(ReassignmentPlanRequest(topics=["x*"]), NO_RACKS, *topics).notes


def test_target_brokers_get_all_replicas() -> None:
    found = plan(ReassignmentPlanRequest(to_brokers=[3, 4]), NO_RACKS, topic("t", [1, 3], [3, 4]))

    assert moved(found) == {"t-0": ([1, 3], [4, 3])}


def test_more_replicas_are_appended_and_the_preferred_leader_stays() -> None:
    found = plan(ReassignmentPlanRequest(replication_factor=3), NO_RACKS, topic("t", [1, 2]))

    assert moved(found) == {"t-0": ([1, 2], [1, 2, 3])}


def test_surplus_replicas_are_removed_offline_ones_first_and_the_preferred_leader_last() -> None:
    racks = {1: "a", 2: "a", 3: "b"}

    offline = plan(ReassignmentPlanRequest(replication_factor=2), racks, topic("t", [1, 2, 3], offline=[3]))
    same_rack = plan(ReassignmentPlanRequest(replication_factor=2), racks, topic("t", [1, 2, 3]))

    assert moved(offline) == {"t-0": ([1, 2, 3], [1, 2])}
    assert moved(same_rack) == {"t-0": ([1, 2, 3], [1, 3])}


def test_a_partition_without_enough_brokers_is_named_and_not_moved() -> None:
    found = plan(ReassignmentPlanRequest(from_brokers=[1], to_brokers=[2]), NO_RACKS, topic("t", [1, 2]))

    assert found.moves == []
    assert "t-0 cannot be moved: its 2 replicas do not fit on [2]" in found.notes


def test_a_partition_without_any_target_broker_is_named() -> None:
    found = plan(ReassignmentPlanRequest(from_brokers=[1], to_brokers=[9]), NO_RACKS, topic("t", [1]))

    assert "t-0 cannot be moved: no broker that may get its replicas is alive" in found.notes


def test_partitions_that_move_or_are_deleted_already_are_skipped() -> None:
    moving = ReplicaAssignment((BrokerId(1), BrokerId(2)), (BrokerId(2),), ())
    view = PartitionView(0, PartitionState.ONLINE, moving, None, ())
    deleted = TopicView("d", None, topic("d", [1]).partitions, DeletionView(True, None, ()))

    found = plan(ReassignmentPlanRequest(from_brokers=[1]), NO_RACKS, TopicView("t", None, (view,)), deleted)

    assert found.moves == []
    assert any("t-0 is skipped: it is being moved already" in note for note in found.notes)
    assert any("d-0 is skipped: its topic is being deleted" in note for note in found.notes)


def test_brokers_that_are_not_live_get_nothing_and_are_named() -> None:
    found = plan(ReassignmentPlanRequest(to_brokers=[3, 9]), NO_RACKS, topic("t", [1]))

    assert moved(found) == {"t-0": ([1], [3])}
    assert "brokers [9] are not live, or shut down: nothing is moved to them" in found.notes


def test_an_empty_request_moves_nothing() -> None:
    found = plan(ReassignmentPlanRequest(), NO_RACKS, topic("t", [1, 2]))

    assert found.moves == []
    assert any("nothing has to move" in note for note in found.notes)


def weighed(planner: ReassignmentPlanner, sizes: SizesView) -> Plan:
    """The plan with the known sizes."""
    for _ in planner.weigh(sizes):
        pass
    return structs.replace(planner.result(), moves=list(planner.result().moves))


def test_the_bytes_to_copy_are_known_if_the_sizes_of_all_partitions_are() -> None:
    racks = NO_RACKS
    brokers = {BrokerId(broker): Broker(BrokerId(broker), 1, (), rack) for broker, rack in racks.items()}
    planner = ReassignmentPlanner(ReassignmentPlanRequest(from_brokers=[1]), brokers, brokers.keys())
    for _ in planner.plan([topic("t", [1, 2], [1, 3])]):
        pass
    known = {tp: {BrokerId(1): ReplicaSize(500, 0, 0.0)} for tp in planner.moved}

    all_known = weighed(planner, SizesView(known))
    some_known = weighed(planner, SizesView({planner.moved[0]: known[planner.moved[0]]}))

    assert (all_known.bytes, [move.bytes for move in all_known.moves]) == (1000, [500, 500])
    assert (some_known.bytes, [move.bytes for move in some_known.moves]) == (None, [500, None])


@pytest.mark.parametrize("is_rack_aware", [True, False])
@given(
    partitions=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), max_size=8),
    leaving=st.sets(st.integers(1, 6), max_size=3),
    factor=st.none() | st.integers(1, 5),
)
def test_every_plan_is_sound(
    partitions: list[list[int]], leaving: set[int], factor: int | None, is_rack_aware: bool
) -> None:
    request = ReassignmentPlanRequest(from_brokers=sorted(leaving), replication_factor=factor, rack_aware=is_rack_aware)
    racks = {broker: "ab"[broker % 2] for broker in range(1, 7)}

    found = plan(request, racks, topic("t", *partitions))

    assert found == plan(request, racks, topic("t", *partitions))
    for move in found.moves:
        stayed = [broker for broker in move.before if broker in move.after]
        assert len(set(move.after)) == len(move.after) == (factor or len(move.before))
        assert not leaving & set(move.after)
        assert set(move.before) - leaving - set(stayed) == set() or len(move.after) < len(move.before)
        assert len(stayed) == min(len(set(move.before) - leaving), len(move.after))
