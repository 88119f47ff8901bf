"""The part that answers to LeaderAndIsr (below version 5) and StopReplica share: an error for each named partition."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from wire.primitives import Cursor


def error_of(code: int) -> KafkaError:
    """The error of this code; one that we have no name for is an unknown server error."""
    try:
        return KafkaError(code)
    except ValueError:
        return KafkaError.UNKNOWN_SERVER_ERROR


def read_named_errors(cursor: Cursor) -> dict[TopicPartition, KafkaError]:
    """An array of (topic, partition, error code). :raises MalformedMessage: the bytes do not follow the schema."""
    errors = {}
    for _ in range(cursor.count()):
        tp = TopicPartition(cursor.string(), cursor.int32())
        errors[tp] = error_of(cursor.int16())
        cursor.skip_tags()
    return errors
