"""Encode and decode DescribeLogDirs by hand: the sizes of a broker's replicas, of which there may be very many.

Version 1 has no compact types, and every broker since Kafka 2.0 supports it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from wire.errors import MalformedMessage
from wire.primitives import Cursor

VERSION: Final = 1
_AT_ONCE: Final = 1_000
_PARTITION: Final = Struct(">iqq?")
_THROTTLE_TIME: Final = 4
"""Bytes of the answer that are not used."""
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


def encode_log_dirs_query(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the body of a request for these replicas."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return b"".join([_INT32.pack(len(topics)), *(_topic(name, numbers) for name, numbers in topics.items())])


def _topic(name: str, partitions: Sequence[int]) -> bytes:
    raw, count = name.encode(), len(partitions)
    return b"".join([_INT16.pack(len(raw)), raw, _INT32.pack(count), Struct(f">{count}i").pack(*partitions)])


class Portion(NamedTuple):
    """Some replicas of a broker, each with its size and its lag in bytes; or a log directory that failed."""

    rows: Mapping[TopicPartition, tuple[int, int]]
    failed: str | None = None


def decode_log_dirs(body: bytes) -> Iterator[Portion]:
    """Yield the replicas of a broker in portions, so that the caller can yield to the event loop in between.

    A replica that moves to another log directory is reported with its size in the former one.

    :raises MalformedMessage: the body is no such response.
    """
    cursor = Cursor(body, _THROTTLE_TIME)
    for _ in range(cursor.count()):
        error, directory = cursor.int16(), _string(cursor)
        for _ in range(cursor.count()):
            yield from _replicas(cursor)
        if error != KafkaError.NONE:
            yield Portion({}, f"its log directory {directory} failed (error code {error})")


def _replicas(cursor: Cursor) -> Iterator[Portion]:
    """The replicas of one topic."""
    name, left = _string(cursor), cursor.count()
    while left > 0:
        part = min(left, _AT_ONCE)
        left -= part
        rows = _PARTITION.iter_unpack(cursor.take(part * _PARTITION.size))
        yield Portion({TopicPartition(name, number): (size, lag) for number, size, lag, future in rows if not future})


def _string(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.int16()).decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("a name that is not UTF-8") from error
