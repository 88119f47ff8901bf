"""Metadata of a large cluster, taken apart a partition at a time: whoever reads it can give the event loop its turns.

kio decodes an answer in one go, which takes seconds for 100,000 partitions; ``tests/wire`` holds one against the other.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from wire.metadata import PartitionMetadata, TopicMetadata
from wire.primitives import Cursor, topic_id_text

_ID_SIZE: Final = 16
_NUMBERS: Final = Struct(">hiii")


def walk_topics(body: bytes) -> Iterator[TopicMetadata | None]:
    """The topics of a Metadata answer of version 12, and None after each of their partitions.

    :raises MalformedMessage: while iterating, where the bytes do not follow the schema.
    """
    cursor = Cursor(body, flexible=True)
    _skip_cluster(cursor)
    for _ in range(cursor.count()):
        yield from _topic(cursor)
    cursor.skip_tags()
    cursor.end()


def _skip_cluster(cursor: Cursor) -> None:
    cursor.int32()  # throttled for so long
    for _ in range(cursor.count()):
        cursor.int32()
        cursor.string()
        cursor.int32()
        cursor.nullable_string()
        cursor.skip_tags()
    cursor.nullable_string()
    cursor.int32()


def _topic(cursor: Cursor) -> Iterator[TopicMetadata | None]:
    error, name = cursor.int16(), cursor.nullable_string() or ""
    topic_id, is_internal = topic_id_text(cursor.take(_ID_SIZE)), cursor.take(1) != b"\x00"
    partitions: dict[int, PartitionMetadata] = {}
    for _ in range(cursor.count()):
        row = _partition(cursor)
        partitions[row.partition] = row
        yield None
    cursor.int32()  # authorized operations
    cursor.skip_tags()
    yield TopicMetadata(name, topic_id, error, is_internal, partitions)


def _partition(cursor: Cursor) -> PartitionMetadata:
    error, partition, leader, leader_epoch = _NUMBERS.unpack(cursor.take(_NUMBERS.size))
    replicas, isr, offline = cursor.int32s(), cursor.int32s(), cursor.int32s()
    cursor.skip_tags()
    return PartitionMetadata(partition, error, leader, leader_epoch, replicas, isr, offline)
