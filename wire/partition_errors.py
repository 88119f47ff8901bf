"""The part that answers to LeaderAndIsr (below version 5) and StopReplica share: an error for each named partition."""

import struct
from collections.abc import Iterator
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from wire.primitives import Cursor

_LONGEST_RUN: Final = 1_000
_BY_CODE: Final = {error.value: error for error in KafkaError}


def error_of(code: int) -> KafkaError:
    """The error of this code; one that we have no name for is an unknown server error."""
    return _BY_CODE.get(code, KafkaError.UNKNOWN_SERVER_ERROR)


def read_named_errors(cursor: Cursor) -> dict[TopicPartition, KafkaError]:
    """An array of (topic, partition, error code). :raises MalformedMessage: the bytes do not follow the schema."""
    errors = {}
    left = cursor.count()
    while left:
        before = cursor.offset
        topic = cursor.string()
        name = cursor.since(before)
        tp = TopicPartition(topic, cursor.int32())
        errors[tp] = error_of(cursor.int16())
        cursor.skip_tags()
        run = [*_same_topic(cursor, name, left - 1)]
        errors.update((TopicPartition(topic, partition), error_of(code)) for partition, code in run)
        left -= 1 + len(run)
    return errors


def _same_topic(cursor: Cursor, name: bytes, most: int) -> Iterator[tuple[int, int]]:
    """The rows that follow with the same topic and without tags, all of one size: up to 100,000 come in few runs."""
    row = struct.Struct(f">{len(name)}sih{len(cursor.tags)}s")
    rows = cursor.peek(row.size * min(most, _LONGEST_RUN))
    for found, partition, code, tags in row.iter_unpack(rows[: len(rows) - len(rows) % row.size]):
        if found != name or tags != cursor.tags:
            return
        cursor.take(row.size)
        yield partition, code
