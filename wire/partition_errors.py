"""The part that answers to LeaderAndIsr (below version 5) and StopReplica share: an error for each named partition."""

import struct
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from wire.blocks import ROWS_PER_STEP
from wire.primitives import Cursor

_GROWTH: Final = 8
"""Brokers name partitions in any order: so many times more rows are looked at, each time all were of the same topic."""
_BY_CODE: Final = {error.value: error for error in KafkaError}


def error_of(code: int) -> KafkaError:
    """The error of this code; one that we have no name for is an unknown server error."""
    return _BY_CODE.get(code, KafkaError.UNKNOWN_SERVER_ERROR)


def read_named_errors(cursor: Cursor) -> Generator[None, None, dict[TopicPartition, KafkaError]]:
    """An array of (topic, partition, error code), in steps. :raises MalformedMessage: it does not follow the schema."""
    errors = {}
    left = cursor.count()
    pause_at = left - ROWS_PER_STEP
    while left:
        before = cursor.offset
        topic = cursor.string()
        name = cursor.since(before)
        tp = TopicPartition(topic, cursor.int32())
        errors[tp] = error_of(cursor.int16())
        cursor.skip_tags()
        run = [*_same_topic(cursor, name, min(left - 1, ROWS_PER_STEP))]
        errors.update((TopicPartition(topic, partition), error_of(code)) for partition, code in run)
        left -= 1 + len(run)
        if left <= pause_at:
            pause_at = left - ROWS_PER_STEP
            yield
    return errors


def _same_topic(cursor: Cursor, name: bytes, most: int) -> Iterator[tuple[int, int]]:
    """The rows that follow with the same topic and without tags, all of one size: up to 100,000 come in few runs."""
    row, no_tags = _row(len(name), len(cursor.tags)), cursor.tags
    at_once = 1
    while whole := len(rows := cursor.peek(row.size * min(most, at_once))) // row.size:
        for found, partition, code, tags in row.iter_unpack(rows[: whole * row.size]):
            if found != name or tags != no_tags:
                return
            cursor.take(row.size)
            yield partition, code
        most -= whole
        at_once *= _GROWTH


@lru_cache
def _row(name: int, tags: int) -> struct.Struct:
    """A row whose topic takes so many bytes, its length included."""
    return struct.Struct(f">{name}sih{tags}s")
