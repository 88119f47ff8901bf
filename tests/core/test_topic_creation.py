"""One wanted topic against the facts: the first broken rule in Kafka's words, or where everything goes."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import OUR_IDS, BrokerId
from controllerd.core.releases import Release
from controllerd.core.topic_creation import CreationFacts, PlannedTopic, TopicRequest, plan_topic
from controllerd.core.topic_names import TakenNames


def first(_below: int) -> int:
    return 0


def facts(*taken: str, deleting: frozenset[str] = frozenset(), brokers: int = 3) -> CreationFacts:
    racks = {BrokerId(number): None for number in range(1, brokers + 1)}
    return CreationFacts(TakenNames(taken), racks, deleting, default_partitions=2, default_replication_factor=3)


def manual(assignments: Mapping[int, tuple[int, ...]]) -> TopicRequest:
    return TopicRequest("orders", assignments={p: tuple(map(BrokerId, ids)) for p, ids in assignments.items()})


def refusal(wanted: TopicRequest, seen: CreationFacts | None = None) -> Refusal:
    outcome = plan_topic(wanted, seen or facts(), first)
    assert isinstance(outcome, Refusal), outcome
    return outcome


def planned(wanted: TopicRequest, seen: CreationFacts | None = None) -> PlannedTopic:
    outcome = plan_topic(wanted, seen or facts(), first)
    assert isinstance(outcome, PlannedTopic), outcome
    return outcome


def test_a_topic_without_counts_gets_the_defaults_of_the_cluster() -> None:
    topic = planned(TopicRequest("orders"))

    assert (topic.name, topic.assignment, topic.configs) == ("orders", {0: (1, 2, 3), 1: (2, 3, 1)}, {})
    assert (topic.partitions, topic.replication_factor) == (2, 3)


def test_start_and_shift_are_drawn_below_the_number_of_brokers() -> None:
    draws: list[int] = []

    def draw(below: int) -> int:
        draws.append(below)
        return below - 1

    assert plan_topic(TopicRequest("orders", 1, 2), facts(), draw) == PlannedTopic(
        "orders", {0: (BrokerId(3), BrokerId(1))}, {}
    )
    assert draws == [3, 3]


def test_brokers_are_placed_on_in_the_order_of_their_ids() -> None:
    seen = CreationFacts(TakenNames([]), {BrokerId(7): None, BrokerId(2): None})

    assert planned(TopicRequest("orders", 2, 1), seen).assignment == {0: (2,), 1: (7,)}


def test_a_manual_assignment_is_taken_unchanged_even_with_unknown_brokers() -> None:
    topic = planned(manual({1: (9, 1), 0: (1, 2)}))

    assert list(topic.assignment.items()) == [(0, (1, 2)), (1, (9, 1))]
    assert (topic.partitions, topic.replication_factor) == (2, 2)


def test_configs_are_kept_as_they_were_written() -> None:
    assert planned(TopicRequest("orders", configs={"retention.ms": " 5"})).configs == {"retention.ms": " 5"}


BOTH = "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."
REFUSED = {
    "exists": (TopicRequest("taken"), KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'taken' already exists."),
    "null configs": (
        TopicRequest("orders", configs={"retention.ms": None, "preallocate": "x", "flush.ms": None}),
        KafkaError.INVALID_CONFIG,
        "Null value not supported for topic configs: retention.ms,flush.ms",
    ),
    "assignments and partitions": (
        TopicRequest("orders", partitions=1, assignments={0: (BrokerId(1),)}), KafkaError.INVALID_REQUEST, BOTH,
    ),
    "assignments and replication factor": (
        TopicRequest("orders", replication_factor=1, assignments={0: (BrokerId(1),)}), KafkaError.INVALID_REQUEST, BOTH,
    ),
    "no partitions": (
        TopicRequest("orders", 0, 1), KafkaError.INVALID_PARTITIONS, "Number of partitions must be larger than 0.",
    ),
    "negative partitions": (
        TopicRequest("orders", -2, 1), KafkaError.INVALID_PARTITIONS, "Number of partitions must be larger than 0.",
    ),
    "partitions without bound": (
        TopicRequest("orders", 2**31 - 1, 1), KafkaError.INVALID_PARTITIONS,
        "Number of partitions must not be larger than 100000.",
    ),
    "no replicas": (
        TopicRequest("orders", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0.",
    ),
    "more replicas than brokers": (
        TopicRequest("orders", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR,
        "Replication factor: 4 larger than available brokers: 3.",
    ),
    "illegal name": (
        TopicRequest(".."), KafkaError.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed",
    ),
    "marked for deletion": (
        TopicRequest("going"), KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'going' is marked for deletion.",
    ),
    "collision": (
        TopicRequest("ta.ken_"), KafkaError.INVALID_TOPIC_EXCEPTION,
        "Topic 'ta.ken_' collides with existing topics: ta_ken.",
    ),
    "replica counts differ": (
        manual({0: (1, 2), 1: (1,)}), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "All partitions should have the same number of replicas",
    ),
    "a broker twice": (
        manual({0: (1, 2), 1: (3, 3)}), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 2), 1 -> ArrayBuffer(3, 3))",
    ),
    "a gap": (
        manual({0: (1,), 2: (1,)}), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "a negative partition": (
        manual({-1: (1,), 1: (1,)}), KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "empty assignments": (
        manual({0: (), 1: ()}), KafkaError.INVALID_REPLICA_ASSIGNMENT, "Replication factor must be larger than 0.",
    ),
    "a replica on us": (
        manual({0: (1, OUR_IDS.start)}), KafkaError.INVALID_REPLICA_ASSIGNMENT, "No broker can have the id 2000000000.",
    ),
    "a negative broker": (
        manual({0: (-1,)}), KafkaError.INVALID_REPLICA_ASSIGNMENT, "No broker can have the id -1.",
    ),
    "unknown config": (
        TopicRequest("orders", configs={"x": "1"}), KafkaError.INVALID_CONFIG, "Unknown topic config name: x",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "error", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_broken_rule_is_answered_in_kafkas_words(wanted: TopicRequest, error: KafkaError, text: str) -> None:
    seen = facts("taken", "ta_ken.", "going", deleting=frozenset({"going"}))

    assert refusal(wanted, seen) == (error, text)


def test_brokers_with_and_without_rack_fail_without_a_text_as_in_kafka() -> None:
    seen = CreationFacts(TakenNames([]), {BrokerId(1): "a", BrokerId(2): None})

    assert refusal(TopicRequest("orders"), seen) == (KafkaError.UNKNOWN_SERVER_ERROR, None)
    assert planned(manual({0: (1, 2)}), seen).assignment == {0: (1, 2)}


def test_without_live_brokers_there_is_no_place() -> None:
    assert refusal(TopicRequest("orders", 1, 1), facts(brokers=0)).text == (
        "Replication factor: 1 larger than available brokers: 0."
    )


IN_ORDER = [
    (TopicRequest("a.b", 0, 9, configs={"x": None}), "exists", KafkaError.TOPIC_ALREADY_EXISTS),
    (TopicRequest("a b", 0, 9, {0: ()}, {"x": None}), "null configs", KafkaError.INVALID_CONFIG),
    (TopicRequest("a b", 0, 9, {0: ()}, {"x": "1"}), "both", KafkaError.INVALID_REQUEST),
    (TopicRequest("a b", 0, 9, configs={"x": "1"}), "partitions", KafkaError.INVALID_PARTITIONS),
    (TopicRequest("a b", 1, 9, configs={"x": "1"}), "factor", KafkaError.INVALID_REPLICATION_FACTOR),
    (TopicRequest("a b", assignments={0: (), 1: (BrokerId(1),)}), "name", KafkaError.INVALID_TOPIC_EXCEPTION),
    (TopicRequest("a_b", assignments={0: (), 1: (BrokerId(1),)}), "collision", KafkaError.INVALID_TOPIC_EXCEPTION),
    (
        TopicRequest("c", assignments={0: (), 1: (BrokerId(1),)}, configs={"x": "1"}),
        "assignment",
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
    ),
    (TopicRequest("c", configs={"x": "1"}), "configs", KafkaError.INVALID_CONFIG),
]


@pytest.mark.parametrize(("wanted", "error"), [(row[0], row[2]) for row in IN_ORDER], ids=[row[1] for row in IN_ORDER])
def test_of_several_broken_rules_the_first_is_named(wanted: TopicRequest, error: KafkaError) -> None:
    assert refusal(wanted, facts("a.b")).error is error


@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 6), st.randoms(use_true_random=False))
def test_every_plan_has_what_was_wanted_on_live_brokers(
    brokers: int, partitions: int, factor: int, random: Random
) -> None:
    seen = facts(brokers=brokers)

    outcome = plan_topic(TopicRequest("orders", partitions, factor), seen, random.randrange)

    if isinstance(outcome, Refusal):
        assert factor > brokers
        return
    assert (outcome.partitions, outcome.replication_factor) == (partitions, factor)
    assert all(len(set(ids)) == factor and set(ids) <= seen.racks.keys() for ids in outcome.assignment.values())


# -- by release --------------------------------------------------------------------------------------------------------


def on_releases(*releases: tuple[int, int], protocol: tuple[int, int] = (3, 9), unknown: int = 0) -> CreationFacts:
    """Brokers 1, 2, ... of these releases, and so many of unknown release after them."""
    racks = {BrokerId(number): None for number in range(1, max(len(releases) + unknown, 1) + 1)}
    known = {BrokerId(number): Release(*release) for number, release in enumerate(releases, 1)}
    return CreationFacts(TakenNames(()), racks, releases=known, protocol_release=Release(*protocol))


def with_absent(seen: CreationFacts, absent: Mapping[int, tuple[int, int] | None]) -> CreationFacts:
    """The same with brokers that hold replicas and are not live, and their last known releases."""
    return replace(seen, absent={BrokerId(id_): known and Release(*known) for id_, known in absent.items()})


def config_refusal(name: str, value: str, seen: CreationFacts) -> str | None:
    outcome = plan_topic(TopicRequest("orders", 1, 1, configs={name: value}), seen, first)
    if isinstance(outcome, PlannedTopic):
        return None
    assert outcome.error is KafkaError.INVALID_CONFIG
    return outcome.text


def test_a_format_that_only_some_brokers_understand_is_refused_and_one_that_does_not_is_named() -> None:
    seen = on_releases((3, 9), (2, 8), (2, 8))

    assert config_refusal("message.format.version", "3.9-IV0", seen) == (
        "message.format.version=3.9-IV0 is not understood by broker 2 (Kafka 2.8): Invalid value 3.9-IV0 for "
        "configuration message.format.version: Version `3.9-IV0` is not a valid version"
    )
    assert config_refusal("message.format.version", "2.8-IV1", seen) is None


def test_a_config_that_an_older_broker_does_not_know_is_refused() -> None:
    assert config_refusal("compression.zstd.level", "3", on_releases((3, 9), (3, 9), (3, 7))) == (
        "compression.zstd.level=3 is not understood by broker 3 (Kafka 3.7): "
        "Unknown topic config name: compression.zstd.level"
    )


def test_a_config_that_only_newer_brokers_refuse_is_refused_as_well() -> None:
    assert config_refusal("flush.messages", "0", on_releases((2, 8), (2, 8))) is None
    assert config_refusal("flush.messages", "0", on_releases((2, 8), (3, 3))) == (
        "flush.messages=0 is not understood by broker 2 (Kafka 3.3): "
        "Invalid value 0 for configuration flush.messages: Value must be at least 1"
    )


def test_a_config_that_every_release_refuses_is_refused_in_the_words_of_the_oldest() -> None:
    seen = on_releases((3, 9), (2, 8))

    assert config_refusal("x", "1", seen) == "Unknown topic config name: x"
    assert config_refusal("message.format.version", "5.0", seen) == (
        "Invalid value 5.0 for configuration message.format.version: Version `5.0` is not a valid version"
    )


@pytest.mark.parametrize("protocol", [(2, 8), (3, 9)])
def test_while_no_release_is_known_the_protocol_version_says_what_the_brokers_understand(
    protocol: tuple[int, int],
) -> None:
    refused = config_refusal("message.format.version", "3.9-IV0", on_releases(protocol=protocol, unknown=3))

    assert (
        refused
        == {
            (2, 8): "message.format.version=3.9-IV0 is not understood by Kafka 2.8 (inter.broker.protocol.version): "
            "Invalid value 3.9-IV0 for configuration message.format.version: Version `3.9-IV0` is not a valid version",
            (3, 9): None,
        }[protocol]
    )


def test_while_one_release_is_not_known_the_protocol_version_stands_for_it() -> None:
    seen = on_releases((3, 9), (3, 9), protocol=(2, 8), unknown=1)

    assert config_refusal("message.format.version", "3.9-IV0", seen) == (
        "message.format.version=3.9-IV0 is not understood by Kafka 2.8 (inter.broker.protocol.version): "
        "Invalid value 3.9-IV0 for configuration message.format.version: Version `3.9-IV0` is not a valid version"
    )


def test_without_any_live_broker_the_protocol_version_is_judged_by() -> None:
    seen = CreationFacts(TakenNames(()), {}, protocol_release=Release(2, 8))
    wanted = TopicRequest("orders", assignments={0: (BrokerId(1),)}, configs={"message.format.version": "3.9-IV0"})

    assert "is not understood by Kafka 2.8" in (refusal(wanted, seen).text or "")


def test_a_broker_that_is_down_for_a_moment_is_judged_by_as_before() -> None:
    seen = with_absent(on_releases((3, 9), (3, 9)), {3: (2, 8)})

    assert config_refusal("message.format.version", "3.9-IV0", seen) == (
        "message.format.version=3.9-IV0 is not understood by broker 3 (Kafka 2.8, not live): "
        "Invalid value 3.9-IV0 for configuration message.format.version: Version `3.9-IV0` is not a valid version"
    )


def test_of_two_brokers_of_one_release_the_live_one_is_named() -> None:
    seen = with_absent(on_releases((3, 9), (2, 8)), {0: (2, 8)})

    assert "is not understood by broker 2 (Kafka 2.8): " in (
        config_refusal("message.format.version", "3.9-IV0", seen) or ""
    )


def test_the_protocol_version_stands_for_a_broker_that_was_not_live_in_this_term() -> None:
    seen = with_absent(on_releases((3, 9), (3, 9), protocol=(2, 8)), {7: None, 3: None})

    assert config_refusal("message.format.version", "3.9-IV0", seen) == (
        "message.format.version=3.9-IV0 is not understood by Kafka 2.8 (inter.broker.protocol.version, which stands "
        "for broker 3, not live): Invalid value 3.9-IV0 for configuration message.format.version: "
        "Version `3.9-IV0` is not a valid version"
    )


def test_no_new_topic_is_placed_on_a_broker_that_is_not_live() -> None:
    seen = with_absent(on_releases((3, 9), (3, 9)), {3: (3, 9)})

    assert refusal(TopicRequest("orders", 1, 3), seen).error is KafkaError.INVALID_REPLICATION_FACTOR


def test_a_known_release_counts_whatever_the_protocol_version_is() -> None:
    assert config_refusal("message.format.version", "3.9-IV0", on_releases((3, 9), protocol=(2, 8))) is None


def test_two_configs_that_contradict_each_other_on_every_release_are_refused_in_kafkas_words() -> None:
    configs = {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}

    assert refusal(TopicRequest("orders", 1, 1, configs=configs), on_releases((2, 8), (3, 9))).text == (
        "conflict topic config setting min.compaction.lag.ms (6) > max.compaction.lag.ms (5)"
    )


def test_a_local_retention_that_ends_brokers_of_30_to_35_is_refused_there() -> None:
    assert config_refusal("local.retention.bytes", "5", on_releases((3, 9))) is None
    assert config_refusal("local.retention.bytes", "5", on_releases((3, 9), (3, 4))) == (
        "local.retention.bytes=5 is not understood by broker 2 (Kafka 3.4): Invalid value 5 for configuration "
        "local.retention.bytes: Where a topic has no retention.bytes, brokers of Kafka 3.4 compare this value with "
        "their own log.retention settings at every start, and end if it does not fit. Name retention.bytes, too."
    )


def test_tiered_storage_that_is_off_is_refused_for_the_brokers_that_have_it() -> None:
    text = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."

    assert config_refusal("remote.storage.enable", "true", on_releases((3, 9))) == text
    assert config_refusal("remote.storage.enable", "true", on_releases((3, 5), (3, 6))) == (
        f"remote.storage.enable=true is not understood by broker 2 (Kafka 3.6): {text}"
    )
