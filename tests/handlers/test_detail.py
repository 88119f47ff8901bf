"""The audit log says of long fields of an event only how long they are."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.loop import detail_of
from events.responses import LeaderAndIsrResponseReceived


def test_the_partitions_of_an_answer_are_counted_and_not_written_out() -> None:
    request = {TopicPartition("t", number): None for number in range(100_000)}
    event = LeaderAndIsrResponseReceived(BrokerId(1), 7, 3, KafkaError.NONE, {}, request.keys())  # as ``event_of`` does

    assert detail_of(event)["partitions"] == 100_000
