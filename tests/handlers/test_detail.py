"""The audit log has the names and values of an event's fields; of a long field it has only the length."""

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.loop import detail_of, summary_of
from events.admin import (
    ControlledShutdownReply,
    DeleteTopics,
    MutationReply,
    ProducerIdBlock,
    Requester,
    TopicOutcome,
    UpdateFeatures,
)
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReply
from events.responses import LeaderAndIsrResponseReceived
from tests.fakes.requester import ALICE


def test_the_partitions_of_an_answer_are_counted_and_not_written_out() -> None:
    request = {TopicPartition("t", number): None for number in range(100_000)}
    event = LeaderAndIsrResponseReceived(BrokerId(1), 7, 3, KafkaError.NONE, {}, request.keys())  # as ``event_of`` does

    assert detail_of(event)["partitions"] == 100_000


def test_the_requester_is_written_in_full() -> None:
    by = Requester("User:alice", "alice", "app", 6, "10.0.0.1")

    detail = detail_of(DeleteTopics(by, ("t", "u")))

    who = {"principal": "User:alice", "user": "alice", "client_id": "app", "version": 6, "peer": "10.0.0.1"}
    assert detail == {"by": who, "topics": 2}


def test_the_requester_of_elections_reassignments_and_features_is_written_in_full() -> None:
    asked = (
        ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, ALICE),
        ApiPartitionReassignment(ALICE, {}),
        UpdateFeatures(ALICE, {}),
    )

    who = {"principal": "User:alice", "user": "alice", "client_id": "app", "version": 7, "peer": "127.0.0.1"}
    assert [detail_of(event)["by"] for event in asked] == [who, who, who]


def test_a_small_reply_is_written_in_words() -> None:
    assert summary_of({"a": KafkaError.NONE, "b": KafkaError.REQUEST_TIMED_OUT}) == "a: NONE; b: REQUEST_TIMED_OUT"
    assert summary_of(None) == "done"


def test_a_summary_leaves_out_fields_with_their_default_value() -> None:
    refused = TopicOutcome(Refusal(KafkaError.TOPIC_ALREADY_EXISTS, "it is there"))
    created = TopicOutcome(None, "Ab1", frozenset({1, 0}), 2)

    summary = summary_of(MutationReply({"orders": created, "payments": refused, "gone": TopicOutcome()}))

    assert summary == (
        "outcomes orders: topic_id Ab1, partitions 0,1, replication_factor 2; "
        "payments: refusal TOPIC_ALREADY_EXISTS (it is there); gone: ok"
    )


def test_a_partition_state_is_written_with_the_names_of_its_fields() -> None:
    state = LeaderAndIsr(BrokerId(1), 0, (BrokerId(1), BrokerId(2)), 5, 2)

    assert summary_of(AlterPartitionReply(KafkaError.NONE, {TopicPartition("t", 0): state}, {})) == (
        "error NONE, partitions t-0: leader 1, leader_epoch 0, isr 1,2, controller_epoch 5, partition_epoch 2, "
        "unknown_ids none"
    )


def test_empty_fields_and_successes_are_written_too() -> None:
    assert summary_of({"alice": None, "bob": Refusal(KafkaError.UNSUPPORTED_VERSION)}) == (
        "alice: ok; bob: UNSUPPORTED_VERSION"
    )
    assert summary_of(ControlledShutdownReply(KafkaError.NONE, frozenset())) == "error NONE, remaining none"


def test_a_topic_name_cannot_imitate_the_outcome_of_another_topic() -> None:
    summary = summary_of({"x: ok; payments": KafkaError.INVALID_TOPIC_EXCEPTION})

    assert summary == "'x: ok; payments': INVALID_TOPIC_EXCEPTION"


def test_a_block_of_producer_ids_is_written_with_its_range() -> None:
    assert summary_of(ProducerIdBlock(KafkaError.NONE, 3000, 1000)) == "error NONE, start 3000, length 1000"


def test_only_the_size_of_a_large_reply_is_written() -> None:
    many = frozenset(TopicPartition("orders", number) for number in range(100_000))

    assert summary_of(dict.fromkeys(many, KafkaError.NONE)) == "<100000>"
    assert summary_of(ControlledShutdownReply(KafkaError.NONE, many)) == "error NONE, remaining <100000>"
