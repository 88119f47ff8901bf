"""The audit log says of long fields of an event only how long they are."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.loop import detail_of, summary_of
from events.admin import ControlledShutdownReply
from events.responses import LeaderAndIsrResponseReceived


def test_the_partitions_of_an_answer_are_counted_and_not_written_out() -> None:
    request = {TopicPartition("t", number): None for number in range(100_000)}
    event = LeaderAndIsrResponseReceived(BrokerId(1), 7, 3, KafkaError.NONE, {}, request.keys())  # as ``event_of`` does

    assert detail_of(event)["partitions"] == 100_000


def test_a_small_reply_is_given_as_it_is() -> None:
    assert summary_of({"a": KafkaError.NONE}) == "{'a': <KafkaError.NONE: 0>}"
    assert summary_of(None) == "None"


def test_of_a_large_reply_only_the_size_is_given() -> None:
    many = frozenset(TopicPartition("orders", number) for number in range(100_000))

    assert summary_of(dict.fromkeys(many, KafkaError.NONE)) == "<100000>"
    assert summary_of(ControlledShutdownReply(KafkaError.NONE, many)) == (
        "ControlledShutdownReply(error=0, remaining=<100000>)"
    )
