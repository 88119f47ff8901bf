"""Metadata of a large cluster, taken apart a partition at a time: whoever reads it can give the event loop its turns.

kio decodes an answer in one go, which takes seconds for 100,000 partitions; ``tests/wire`` holds one against the other.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from wire.metadata import TOPIC_IDS_FROM_VERSION, EncodedMetadata, PartitionMetadata, TopicMetadata
from wire.primitives import Cursor, topic_id_text

_ID_SIZE: Final = 16
_LAST_WITH_CLUSTER_OPERATIONS: Final = 10
_NUMBERS: Final = Struct(">hiii")


def walk_topics(answer: EncodedMetadata) -> Iterator[TopicMetadata | None]:
    """The topics of a Metadata answer of version 9 or later, and None after each of their partitions.

    :raises MalformedMessage: while iterating, where the bytes do not follow the schema.
    """
    cursor = Cursor(answer.body, flexible=True)
    _skip_cluster(cursor)
    for _ in range(cursor.count()):
        yield from _topic(cursor, with_id=answer.version >= TOPIC_IDS_FROM_VERSION)
    if answer.version <= _LAST_WITH_CLUSTER_OPERATIONS:
        cursor.int32()
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


def _topic(cursor: Cursor, *, with_id: bool) -> Iterator[TopicMetadata | None]:
    error, name = cursor.int16(), cursor.nullable_string() or ""
    topic_id = topic_id_text(cursor.take(_ID_SIZE)) if with_id else None
    is_internal = cursor.take(1) != b"\x00"
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
