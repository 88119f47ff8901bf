"""Decode and encode AlterPartitionReassignments and ListPartitionReassignments (KIP-455) by hand.

One request may be about every partition of the cluster.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from wire.api_codec import Request
from wire.api_elections import RowResult
from wire.errors import MalformedMessage
from wire.framing import RequestHeader, decode_request_header, encode_response_header
from wire.primitives import FLEXIBLE, Cursor


class WantedReplicas(NamedTuple):
    """One row of a request; ``replicas`` is None to cancel."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...] | None


def decode_alter_reassignments(request: Request) -> list[WantedReplicas]:
    """Decode the rows of AlterPartitionReassignments in their order, repeated ones too.

    The timeout is ignored: the response is sent when the reassignments have begun.

    :raises MalformedMessage: anything is wrong with the bytes.
    """
    cursor = _cursor(request)
    cursor.int32()
    rows = []
    for _ in range(_present(cursor.nullable_count())):
        topic = cursor.string()
        for _ in range(_present(cursor.nullable_count())):
            index, replicas = cursor.int32(), _read_replicas(cursor)
            cursor.skip_tags()
            rows.append(WantedReplicas(TopicPartition(topic, index), replicas))
        cursor.skip_tags()
    _finish(cursor)
    return rows


def decode_list_reassignments(request: Request) -> list[TopicPartition] | None:
    """Decode the partitions of ListPartitionReassignments; None for all. :raises MalformedMessage: bad bytes."""
    cursor = _cursor(request)
    cursor.int32()
    topics = cursor.nullable_count()
    wanted = []
    for _ in range(topics or 0):
        topic = cursor.string()
        wanted += [TopicPartition(topic, index) for index in cursor.int32s()]
        cursor.skip_tags()
    _finish(cursor)
    return None if topics is None else wanted


def encode_alter_reassignments(
    head: RequestHeader, error: KafkaError, message: str | None, topics: Mapping[str, Sequence[RowResult]]
) -> bytes:
    """Encode the response: a top-level error with its message, and the outcome of each partition."""
    out = [_start(head, error, message), FLEXIBLE.count(len(topics))]
    for topic, rows in topics.items():
        out.append(FLEXIBLE.string(topic) + FLEXIBLE.count(len(rows)))
        out.extend(
            struct.pack(">ih", row.partition, row.error) + FLEXIBLE.nullable_string(row.message) + FLEXIBLE.tags
            for row in rows
        )
        out.append(FLEXIBLE.tags)
    out.append(FLEXIBLE.tags)
    return b"".join(out)


def encode_list_reassignments(
    head: RequestHeader,
    error: KafkaError,
    message: str | None,
    topics: Mapping[str, Sequence[tuple[int, ReplicaAssignment]]],
) -> bytes:
    """Encode the response: the partitions that are being reassigned, with their adding and removing replicas."""
    out = [_start(head, error, message), FLEXIBLE.count(len(topics))]
    for topic, rows in topics.items():
        out.append(FLEXIBLE.string(topic) + FLEXIBLE.count(len(rows)))
        out.extend(_ongoing(index, assignment) for index, assignment in rows)
        out.append(FLEXIBLE.tags)
    out.append(FLEXIBLE.tags)
    return b"".join(out)


def _ongoing(index: int, assignment: ReplicaAssignment) -> bytes:
    lists = (assignment.replicas, assignment.adding, assignment.removing)
    return struct.pack(">i", index) + b"".join(map(_ids, lists)) + FLEXIBLE.tags


def _ids(ids: Iterable[BrokerId]) -> bytes:
    listed = tuple(ids)
    return FLEXIBLE.count(len(listed)) + struct.pack(f">{len(listed)}i", *listed)


def _start(head: RequestHeader, error: KafkaError, message: str | None) -> bytes:
    header = encode_response_header(head.api_key, head.version, head.correlation_id)
    return header + struct.pack(">ih", 0, error) + FLEXIBLE.nullable_string(message)


def _cursor(request: Request) -> Cursor:
    return Cursor(request.frame, decode_request_header(request.frame)[1], flexible=True)


def _finish(cursor: Cursor) -> None:
    cursor.skip_tags()
    cursor.end()


def _read_replicas(cursor: Cursor) -> tuple[BrokerId, ...] | None:
    length = cursor.nullable_count()
    if length is None:
        return None
    return tuple(map(BrokerId, struct.unpack(f">{length}i", cursor.take(4 * length))))


def _present(length: int | None) -> int:
    """The length of an array that must not be null."""
    if length is None:
        raise MalformedMessage("an array is null that must not be")
    return length
