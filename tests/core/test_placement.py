"""Placement against tables that Kafka's algorithm is known to give, and against what must always hold."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.placement import (
    MAX_PARTITIONS,
    Placement,
    PlacementError,
    alternate_racks,
    expansion_start,
    place_replicas,
    placement_refusal,
    without_rack,
)


def rackless(*numbers: int) -> dict[BrokerId, str | None]:
    return {BrokerId(number): None for number in numbers}


def racked(racks: Mapping[int, str]) -> dict[BrokerId, str]:
    return {BrokerId(number): rack for number, rack in racks.items()}


SIX_ON_THREE = racked({0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"})


def test_without_racks_the_leaders_go_round_and_the_followers_shift_with_every_round() -> None:
    placed = place_replicas(rackless(0, 1, 2, 3, 4), range(10), 3, start=0, shift=0)

    assert list(placed.values()) == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


def test_start_moves_the_leaders_and_shift_the_followers() -> None:
    assert place_replicas(rackless(0, 1, 2, 3, 4), range(1), 3, start=2, shift=1) == {0: (2, 4, 0)}


def test_the_order_of_the_brokers_is_the_order_of_placement() -> None:
    assert place_replicas(rackless(5, 1, 3), range(2), 2, start=0, shift=0) == {0: (5, 1), 1: (1, 3)}


def test_added_partitions_go_on_where_the_topic_ends() -> None:
    brokers = rackless(0, 1, 2, 3, 4)
    whole = place_replicas(brokers, range(10), 3, start=0, shift=0)

    assert place_replicas(brokers, range(3, 5), 3, start=0, shift=0) == {3: whole[3], 4: whole[4]}


def test_the_shift_counts_only_the_rounds_of_the_partitions_that_are_placed() -> None:
    assert place_replicas(rackless(0, 1, 2), range(7, 8), 2, start=0, shift=0) == {7: (1, 2)}


def test_one_broker_carries_one_replica() -> None:
    assert place_replicas(rackless(4), range(2), 1, start=0, shift=0) == {0: (4,), 1: (4,)}


def test_one_racked_broker_carries_one_replica() -> None:
    assert place_replicas({BrokerId(4): "a"}, range(2), 1, start=0, shift=0) == {0: (4,), 1: (4,)}


@pytest.mark.parametrize("replication_factor", [-1, 0, 3])
def test_a_replication_factor_beyond_the_brokers_is_refused(replication_factor: int) -> None:
    with pytest.raises(PlacementError, match="2 live brokers"):
        place_replicas(rackless(1, 2), range(1), replication_factor, start=0, shift=0)


def test_a_mix_of_racked_and_rackless_brokers_is_refused() -> None:
    with pytest.raises(PlacementError, match=r"\[2\] have no rack"):
        place_replicas({BrokerId(1): "a", BrokerId(2): None}, range(1), 1, start=0, shift=0)


def test_racks_take_turns() -> None:
    assert alternate_racks(SIX_ON_THREE) == [0, 3, 1, 5, 4, 2]


def test_with_racks_each_partition_has_a_replica_in_each_rack() -> None:
    placed = place_replicas(dict(SIX_ON_THREE), range(12), 3, start=0, shift=0)

    assert list(placed.values()) == [
        (0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3),
        (0, 4, 2), (3, 2, 0), (1, 0, 3), (5, 3, 1), (4, 1, 5), (2, 5, 4),
    ]  # fmt: skip


def test_with_fewer_racks_than_replicas_every_rack_is_used_before_one_is_used_twice() -> None:
    racks = racked({0: "a", 1: "a", 2: "b", 3: "b"})

    for replicas in place_replicas(dict(racks), range(8), 3, start=0, shift=0).values():
        assert {racks[broker] for broker in replicas[:2]} == {"a", "b"}


@pytest.mark.parametrize(("first_replica", "index"), [(1, 0), (3, 1), (4, 2), (5, 2), (6, 0)])
def test_expansion_starts_at_the_first_broker_not_below_the_first_replica(first_replica: int, index: int) -> None:
    assert expansion_start([BrokerId(1), BrokerId(3), BrokerId(5)], BrokerId(first_replica)) == index


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[BrokerId, str | None], int]:
    """Brokers, all or none with racks, and a replication factor that they can carry."""
    numbers = draw(st.lists(st.integers(0, 50).map(BrokerId), unique=True, min_size=1, max_size=8))
    labels = st.sampled_from("abc") if draw(st.booleans()) else st.none()
    return {number: draw(labels) for number in numbers}, draw(st.integers(1, len(numbers)))


@given(clusters(), st.integers(0, 7), st.integers(0, 7))
def test_every_partition_gets_distinct_brokers_and_leaders_are_even(
    cluster: tuple[dict[BrokerId, str | None], int], start: int, shift: int
) -> None:
    racks, replication_factor = cluster

    placed = place_replicas(racks, range(2 * len(racks)), replication_factor, start=start, shift=shift)

    assert all(len(set(replicas)) == replication_factor for replicas in placed.values())
    assert set(Counter(replicas[0] for replicas in placed.values()).values()) == {2}
    for replicas in placed.values():
        spread = {racks[broker] for broker in replicas}
        assert len(spread) == min(replication_factor, len(set(racks.values())))


@pytest.mark.parametrize(
    ("racks", "missing"),
    [((None, None), []), (("a", "b"), []), (("a", None), [1]), ((None, "a", None), [0, 2]), ((), [])],
)
def test_brokers_lack_a_rack_only_if_others_have_one(racks: tuple[str | None, ...], missing: list[int]) -> None:
    assert without_rack({BrokerId(number): rack for number, rack in enumerate(racks)}) == missing


@given(st.integers(-2, 4), st.integers(-2, 5), st.lists(st.sampled_from([None, "a"]), max_size=4))
def test_what_is_not_refused_can_be_placed(partitions: int, factor: int, racks: list[str | None]) -> None:
    brokers = {BrokerId(number): rack for number, rack in enumerate(racks)}

    if placement_refusal(partitions, factor, brokers) is None:
        assert len(place_replicas(brokers, range(partitions), factor, start=0, shift=0)) == partitions


def test_the_largest_topic_is_not_refused_and_one_partition_more_is() -> None:
    brokers = rackless(1)

    assert placement_refusal(MAX_PARTITIONS, 1, brokers) is None
    assert (placement_refusal(MAX_PARTITIONS + 1, 1, brokers) or [None])[0] is KafkaError.INVALID_PARTITIONS


def unevenness(placed: Placement, brokers: Mapping[BrokerId, str | None], *, place: int | None = None) -> int:
    """The most loaded broker's replicas less the least loaded one's, of all or of one place in the lists only."""
    load = dict.fromkeys(brokers, 0)
    for replicas in placed.values():
        for broker in replicas if place is None else replicas[place : place + 1]:
            load[broker] += 1
    return max(load.values()) - min(load.values())


@given(clusters(), st.integers(0, 7), st.integers(0, 7), st.integers(1, 40))
def test_leaders_are_even_to_within_one_from_the_first_partition_on(
    cluster: tuple[dict[BrokerId, str | None], int], start: int, shift: int, partitions: int
) -> None:
    racks, replication_factor = cluster

    placed = place_replicas(racks, range(partitions), replication_factor, start=start, shift=shift)

    assert unevenness(placed, racks, place=0) <= 1


@given(st.integers(1, 8), st.data(), st.integers(0, 7), st.integers(0, 7), st.integers(1, 40))
def test_without_racks_each_place_in_the_lists_is_even_to_within_one(
    brokers: int, data: st.DataObject, start: int, shift: int, partitions: int
) -> None:
    racks, replication_factor = rackless(*range(brokers)), data.draw(st.integers(1, brokers))

    placed = place_replicas(racks, range(partitions), replication_factor, start=start, shift=shift)

    assert all(unevenness(placed, racks, place=place) <= 1 for place in range(replication_factor))


@given(st.integers(1, 8), st.data(), st.integers(1, 5))
def test_without_racks_whole_rounds_load_every_broker_the_same(brokers: int, data: st.DataObject, rounds: int) -> None:
    racks, replication_factor = rackless(*range(brokers)), data.draw(st.integers(1, brokers))

    placed = place_replicas(racks, range(rounds * brokers), replication_factor, start=0, shift=3)

    assert unevenness(placed, racks) == 0


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 7), st.integers(0, 7), st.integers(1, 4))
def test_equal_racks_with_one_replica_each_load_every_broker_the_same(
    racks: int, size: int, start: int, shift: int, rounds: int
) -> None:
    brokers: dict[BrokerId, str | None] = {BrokerId(number): f"r{number % racks}" for number in range(racks * size)}

    placed = place_replicas(brokers, range(rounds * len(brokers)), racks, start=start, shift=shift)

    assert unevenness(placed, brokers) == 0
