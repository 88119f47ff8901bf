"""Which configurations bound reassignments, as kafka-reassign-partitions sets them; and what is left of them."""

from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.throttles import Bound, entity_names, lifted, mark_of, plan_bounds, wanted_bounds

L_RATE, F_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
L_LIST, F_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


def test_senders_and_receivers_are_bound_and_named() -> None:
    moves = [(tp(0), ReplicaAssignment(ids(1, 2)), ids(2, 3)), (tp(10), ReplicaAssignment(ids(2)), ids(1))]

    wanted = wanted_bounds(1000, moves)

    rates = {L_RATE: "1000", F_RATE: "1000"}
    replicas = {L_LIST: "0:1,0:2,10:2", F_LIST: "0:3,10:1"}
    assert wanted == {"brokers/1": rates, "brokers/2": rates, "brokers/3": rates, "topics/t": replicas}


def test_a_replica_that_is_being_added_receives_and_does_not_send() -> None:
    current = ReplicaAssignment(ids(1, 2, 3), adding=ids(3))

    wanted = wanted_bounds(1000, [(tp(0), current, ids(1, 3))])

    assert wanted["topics/t"] == {L_LIST: "0:1,0:2", F_LIST: "0:3"}


def test_a_move_that_copies_nothing_limits_no_broker() -> None:
    assert wanted_bounds(1000, [(tp(0), ReplicaAssignment(ids(1, 2)), ids(2, 1))]) == {}


def test_the_former_value_is_remembered_and_other_keys_stay() -> None:
    plan = plan_bounds({"brokers/1": {L_RATE: "9"}}, {"brokers/1": {"other": "x"}}, {}, override=False)

    assert plan.configs == {"brokers/1": {"other": "x", L_RATE: "9"}}
    assert plan.bounds == {"brokers/1": {L_RATE: Bound("9", None)}}
    assert plan.refusals == {}


def test_a_throttle_of_another_client_is_refused_unless_it_is_equal() -> None:
    wanted = {"brokers/1": {L_RATE: "9", F_RATE: "9"}}

    other = plan_bounds(wanted, {"brokers/1": {L_RATE: "5"}}, {}, override=False)
    same = plan_bounds(wanted, {"brokers/1": {L_RATE: "9"}}, {}, override=False)

    assert other.refusals == {"brokers/1": f"{L_RATE} is 5 already, and it was not set by this controller"}
    assert same.refusals == {}
    assert same.bounds == {"brokers/1": {F_RATE: Bound("9", None)}}


def test_a_topic_whose_replicas_are_all_bound_is_left_alone() -> None:
    plan = plan_bounds({"topics/t": {L_LIST: "0:1"}}, {"topics/t": {L_LIST: "*"}}, {}, override=True)

    assert plan.configs == {"topics/t": {L_LIST: "*"}}
    assert plan.bounds == {"topics/t": {}}


def test_an_overridden_value_is_restored_at_the_end() -> None:
    plan = plan_bounds({"brokers/1": {L_RATE: "9"}}, {"brokers/1": {L_RATE: "5"}}, {}, override=True)

    assert lifted(plan.configs["brokers/1"], plan.bounds["brokers/1"]) == {L_RATE: "5"}


def test_a_second_throttle_replaces_our_rate_and_adds_to_our_list() -> None:
    wanted = {"brokers/1": {L_RATE: "9"}, "topics/t": {L_LIST: "0:1"}}
    first = plan_bounds(wanted, {"brokers/1": {}, "topics/t": {}}, {}, override=False)

    second = plan_bounds(
        {"brokers/1": {L_RATE: "20"}, "topics/t": {L_LIST: "1:2"}}, first.configs, first.bounds, override=False
    )

    assert second.configs == {"brokers/1": {L_RATE: "20"}, "topics/t": {L_LIST: "0:1,1:2"}}
    assert {e: lifted(config, second.bounds[e]) for e, config in second.configs.items()} == {
        "brokers/1": {},
        "topics/t": {},
    }


def test_a_value_that_was_changed_since_is_not_ours_any_more() -> None:
    assert lifted({L_RATE: "7", "x": "y"}, {L_RATE: Bound("9", None)}) == {L_RATE: "7", "x": "y"}


def test_a_long_value_is_known_by_its_digest() -> None:
    value = ",".join(f"{partition}:1" for partition in range(100))

    assert len(mark_of(value)) < 80
    assert lifted({L_LIST: value}, {L_LIST: Bound(mark_of(value), None)}) == {}
    assert lifted({L_LIST: value + ",100:1"}, {L_LIST: Bound(mark_of(value), None)}) == {L_LIST: value + ",100:1"}


def test_entities_are_separated_by_kind() -> None:
    assert entity_names(["topics/b", "brokers/10", "brokers/2", "topics/a"]) == ((2, 10), ("a", "b"))
