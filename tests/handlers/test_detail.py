"""The audit log says of long fields of an event only how long they are."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.loop import detail_of, summary_of
from events.admin import ControlledShutdownReply, DeleteTopics, Requester, UpdateFeatures
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment
from events.responses import LeaderAndIsrResponseReceived
from tests.fakes.requester import ALICE


def test_the_partitions_of_an_answer_are_counted_and_not_written_out() -> None:
    request = {TopicPartition("t", number): None for number in range(100_000)}
    event = LeaderAndIsrResponseReceived(BrokerId(1), 7, 3, KafkaError.NONE, {}, request.keys())  # as ``event_of`` does

    assert detail_of(event)["partitions"] == 100_000


def test_who_asks_is_written_out() -> None:
    by = Requester("User:alice", "alice", "app", 6, "10.0.0.1")

    detail = detail_of(DeleteTopics(by, ("t", "u")))

    who = {"principal": "User:alice", "user": "alice", "client_id": "app", "version": 6, "peer": "10.0.0.1"}
    assert detail == {"by": who, "topics": 2}


def test_who_asks_for_elections_reassignments_and_features_is_written_out() -> None:
    asked = (
        ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, ALICE),
        ApiPartitionReassignment(ALICE, {}),
        UpdateFeatures(ALICE, {}),
    )

    who = {"principal": "User:alice", "user": "alice", "client_id": "app", "version": 7, "peer": "127.0.0.1"}
    assert [detail_of(event)["by"] for event in asked] == [who, who, who]


def test_a_small_reply_is_given_as_it_is() -> None:
    assert summary_of({"a": KafkaError.NONE}) == "{'a': <KafkaError.NONE: 0>}"
    assert summary_of(None) == "None"


def test_of_a_large_reply_only_the_size_is_given() -> None:
    many = frozenset(TopicPartition("orders", number) for number in range(100_000))

    assert summary_of(dict.fromkeys(many, KafkaError.NONE)) == "<100000>"
    assert summary_of(ControlledShutdownReply(KafkaError.NONE, many)) == (
        "ControlledShutdownReply(error=0, remaining=<100000>)"
    )
