"""More partitions: the first broken rule in Kafka's words, or where the new ones go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, ReplicaAssignment
from controllerd.core.partition_growth import GrowthRequest, PlannedGrowth, plan_growth, refused_repeats
from controllerd.core.placement import MAX_PARTITIONS


def brokers(*numbers: int) -> dict[BrokerId, str | None]:
    return {BrokerId(number): None for number in numbers}


def topic(*assignments: tuple[int, ...]) -> dict[int, ReplicaAssignment]:
    return {index: ReplicaAssignment(tuple(map(BrokerId, replicas))) for index, replicas in enumerate(assignments)}


def request(total: int, *assignments: tuple[int, ...]) -> GrowthRequest:
    return GrowthRequest("orders", total, tuple(tuple(map(BrokerId, replicas)) for replicas in assignments))


THREE = brokers(1, 2, 3)
TWO_PARTITIONS = topic((2, 3), (3, 1))


def test_new_partitions_start_from_the_place_of_partition_0s_first_replica() -> None:
    assert plan_growth(GrowthRequest("orders", 5), TWO_PARTITIONS, THREE) == (
        "orders",
        {2: (1, 3), 3: (2, 3), 4: (3, 1)},
        5,
    )


def test_the_order_in_which_brokers_are_known_does_not_matter() -> None:
    wanted = GrowthRequest("orders", 5)

    assert plan_growth(wanted, TWO_PARTITIONS, brokers(3, 1, 2)) == plan_growth(wanted, TWO_PARTITIONS, THREE)


def test_a_given_assignment_is_taken_for_the_new_partitions_in_order() -> None:
    assert plan_growth(request(4, (1, 2), (3, 2)), TWO_PARTITIONS, THREE) == ("orders", {2: (1, 2), 3: (3, 2)}, 4)


REFUSED = {
    "fewer": (
        GrowthRequest("orders", 1), KafkaError.INVALID_PARTITIONS,
        "Topic currently has 2 partitions, which is higher than the requested 1.",
    ),
    "negative": (
        GrowthRequest("orders", -1), KafkaError.INVALID_PARTITIONS,
        "Topic currently has 2 partitions, which is higher than the requested -1.",
    ),
    "as many": (GrowthRequest("orders", 2), KafkaError.INVALID_PARTITIONS, "Topic already has 2 partitions."),
    "without bound": (
        GrowthRequest("orders", 2**31 - 1), KafkaError.INVALID_PARTITIONS,
        f"Number of partitions must not be larger than {MAX_PARTITIONS}.",
    ),
    "unknown brokers": (
        request(4, (9, 1), (8, 9)), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Unknown broker(s) in replica assignment: 9, 8.",
    ),
    "an id of ours": (
        request(3, (1, 2_000_000_000)), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Unknown broker(s) in replica assignment: 2000000000.",
    ),
    "too few lists": (
        request(4, (1, 2)), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Increasing the number of partitions by 2 but 1 assignments provided.",
    ),
    "too many lists": (
        request(3, (1, 2), (2, 3)), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Increasing the number of partitions by 1 but 2 assignments provided.",
    ),
    "no lists": (
        request(3), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Increasing the number of partitions by 1 but 0 assignments provided.",
    ),
    "an empty list": (
        request(4, (1, 2), ()), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Cannot have replication factor of 0 for partition id 3.",
    ),
    "a broker twice": (
        request(3, (1, 1)), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
    ),
    "other replication factors": (
        request(5, (1,), (1, 2), (1, 2, 3)), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ("Inconsistent replication factor between partitions, partition 0 has 2 while partitions [2, 4] have "
        "replication factors [1, 3], respectively."),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "error", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_broken_rule_is_answered_in_kafkas_words(wanted: GrowthRequest, error: KafkaError, text: str) -> None:
    assert plan_growth(wanted, TWO_PARTITIONS, THREE) == Refusal(error, text)


def test_an_unknown_topic_is_refused() -> None:
    assert plan_growth(GrowthRequest("orders", 3), {}, THREE) == (
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'orders' does not exist.",
    )


def test_a_topic_that_is_queued_for_deletion_is_refused_before_anything_else() -> None:
    moving = {0: ReplicaAssignment((BrokerId(1),), adding=(BrokerId(1),))}

    assert plan_growth(GrowthRequest("orders", 1), moving, THREE, queued_for_deletion=True) == (
        KafkaError.INVALID_TOPIC_EXCEPTION,
        "The topic is queued for deletion.",
    )


def test_a_topic_that_is_being_reassigned_is_refused_before_its_count_is_looked_at() -> None:
    moving = TWO_PARTITIONS | {1: ReplicaAssignment((BrokerId(3), BrokerId(1)), removing=(BrokerId(1),))}

    assert plan_growth(GrowthRequest("orders", 1), moving, THREE) == (
        KafkaError.REASSIGNMENT_IN_PROGRESS,
        "A partition reassignment is in progress for the topic 'orders'.",
    )


def test_brokers_with_and_without_rack_fail_without_a_text_as_in_kafka() -> None:
    mixed: dict[BrokerId, str | None] = {BrokerId(1): "a", BrokerId(2): None}

    assert plan_growth(GrowthRequest("orders", 3), TWO_PARTITIONS, mixed) == (KafkaError.UNKNOWN_SERVER_ERROR, None)


@pytest.mark.parametrize("numbers", [(1, 2), (0, 2)])
def test_a_topic_with_a_gap_is_not_changed(numbers: tuple[int, ...]) -> None:
    gap = dict.fromkeys(numbers, ReplicaAssignment((BrokerId(1),)))

    assert plan_growth(GrowthRequest("orders", 3), gap, THREE) == (
        KafkaError.UNKNOWN_SERVER_ERROR,
        "The partitions of the topic 'orders' are not numbered from 0 without a gap.",
    )


def test_with_fewer_live_brokers_than_replicas_there_is_no_place() -> None:
    assert plan_growth(GrowthRequest("orders", 3), TWO_PARTITIONS, brokers(1)) == (
        KafkaError.INVALID_REPLICATION_FACTOR,
        "Replication factor: 2 larger than available brokers: 1.",
    )


def test_a_first_partition_without_replicas_gives_no_replication_factor() -> None:
    assert plan_growth(GrowthRequest("orders", 3), topic(()), THREE) == (
        KafkaError.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0.",
    )


def test_a_topic_that_is_named_twice_is_refused() -> None:
    assert refused_repeats(["a", "b", "b"]) == {"b": (KafkaError.INVALID_REQUEST, "Duplicate topic in request.")}


@given(st.data())
def test_added_partitions_follow_the_old_ones_with_distinct_replicas_and_even_leaders(data: st.DataObject) -> None:
    live = brokers(*data.draw(st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=8)))
    head = data.draw(st.permutations(range(31)))[: data.draw(st.integers(1, len(live)))]
    old, more = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 30))

    grown = plan_growth(GrowthRequest("orders", old + more), topic(*[tuple(head)] * old), live)

    assert isinstance(grown, PlannedGrowth)
    assert list(grown.added) == list(range(old, old + more))
    assert all(len(set(ids)) == len(head) and set(ids) <= live.keys() for ids in grown.added.values())
    leaders = Counter(dict.fromkeys(live, 0))
    leaders.update(ids[0] for ids in grown.added.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1
