"""Our own ids never stay in an assignment, and the replication factor never falls for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.model import OUR_IDS, Broker, BrokerId, ReplicaAssignment
from controllerd.core.sanitizer import WaitsForBrokers, our_rack, sanitize, sanitize_topic

US = OUR_IDS[0]
OTHER_OF_US = OUR_IDS[99]


def replicas(*numbers: int) -> ReplicaAssignment:
    return ReplicaAssignment(ids(*numbers))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def load(**counts: int) -> dict[BrokerId, int]:
    return {BrokerId(int(name[1:])): count for name, count in counts.items()}


def test_a_clean_assignment_is_left_alone() -> None:
    assert sanitize(replicas(1, 2), load(b1=0, b2=0, b3=0)) is None


def test_the_least_used_broker_takes_our_place() -> None:
    assert sanitize(replicas(1, US), load(b1=0, b2=5, b3=4)) == replicas(1, 3)


def test_our_place_in_the_order_is_kept() -> None:
    assert sanitize(replicas(US, 1), load(b1=0, b2=0)) == replicas(2, 1)


def test_of_equally_used_brokers_the_lowest_id_is_taken() -> None:
    assert sanitize(replicas(US), load(b3=1, b2=1)) == replicas(2)


def test_a_rack_without_replica_goes_first() -> None:
    racks = {BrokerId(1): "a", BrokerId(2): "a", BrokerId(3): "b"}

    assert sanitize(replicas(1, US), load(b1=0, b2=0, b3=9), racks=racks) == replicas(1, 3)


def test_several_of_us_are_replaced_by_several_brokers() -> None:
    assert sanitize(replicas(US, 2, OTHER_OF_US), load(b1=1, b2=0, b3=0)) == replicas(3, 2, 1)


def test_several_replacements_go_to_several_racks() -> None:
    racks = {BrokerId(1): "a", BrokerId(2): "b", BrokerId(3): "b", BrokerId(4): "c"}

    assert sanitize(replicas(1, US, OTHER_OF_US), load(b1=0, b2=0, b3=0, b4=9), racks=racks) == replicas(1, 2, 4)


def test_with_too_few_live_brokers_the_partition_waits() -> None:
    assert sanitize(replicas(1, US), load(b1=0)) == WaitsForBrokers(needed=1, available=0)


def test_half_a_replacement_is_none() -> None:
    assert sanitize(replicas(US, OTHER_OF_US, 1), load(b1=0, b2=0)) == WaitsForBrokers(needed=2, available=1)


def test_one_of_us_that_is_being_added_is_replaced_there_too() -> None:
    assignment = ReplicaAssignment(ids(US, 2, 1), adding=ids(US, 2), removing=ids(1))

    assert sanitize(assignment, load(b1=0, b2=0, b3=0)) == ReplicaAssignment(ids(3, 2, 1), ids(3, 2), ids(1))


def test_one_of_us_that_is_being_removed_is_left_to_its_reassignment() -> None:
    assert sanitize(ReplicaAssignment(ids(2, US), ids(2), ids(US)), load(b1=0, b2=0)) is None


def test_a_topic_spreads_over_the_brokers() -> None:
    assignments = {partition: replicas(1, US) for partition in range(4)}

    outcome = sanitize_topic(assignments, load(b1=4, b2=0, b3=0))

    assert outcome.changed == {0: replicas(1, 2), 1: replicas(1, 3), 2: replicas(1, 2), 3: replicas(1, 3)}
    assert outcome.waiting == {}


def test_a_topic_waits_partition_by_partition() -> None:
    outcome = sanitize_topic({0: replicas(1), 1: replicas(1, US), 2: replicas(US)}, load(b1=0))

    assert outcome.changed == {2: replicas(1)}
    assert outcome.waiting == {1: WaitsForBrokers(1, 0)}


any_id = st.one_of(st.integers(0, 6), st.sampled_from([US, OTHER_OF_US])).map(BrokerId)


@given(
    st.lists(any_id, unique=True, min_size=1, max_size=5).map(lambda found: ReplicaAssignment(tuple(found))),
    st.dictionaries(st.integers(0, 6).map(BrokerId), st.integers(0, 9)),
)
def test_the_outcome_is_clean_distinct_and_as_long_as_before(
    assignment: ReplicaAssignment, live: dict[BrokerId, int]
) -> None:
    outcome = sanitize(assignment, live)

    if isinstance(outcome, ReplicaAssignment):
        assert len(set(outcome.replicas)) == len(assignment.replicas)
        assert not set(outcome.replicas) & set(OUR_IDS)
        assert sanitize(outcome, live) is None
    elif outcome is None:
        assert not set(assignment.replicas) & set(OUR_IDS)
    else:
        assert outcome.available < outcome.needed


def brokers(*racks: str | None) -> list[Broker]:
    return [Broker(BrokerId(number), 1, (), rack) for number, rack in enumerate(racks, 1)]


@pytest.mark.parametrize(
    ("racks", "ours"),
    [
        pytest.param([], None, id="no brokers"),
        pytest.param([None, None], None, id="no racks"),
        pytest.param(["a", None], None, id="some racks"),
        pytest.param(["b", "b", "a"], "b", id="the rack of most brokers"),
        pytest.param(["b", "a"], "a", id="of equals the first by name"),
    ],
)
def test_our_rack(racks: list[str | None], ours: str | None) -> None:
    assert our_rack(brokers(*racks)) == ours


def test_our_own_entry_does_not_count_for_our_rack() -> None:
    assert our_rack([*brokers("a"), Broker(BrokerId(US), 1, (), None)]) == "a"
