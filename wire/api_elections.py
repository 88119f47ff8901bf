"""Decode and encode ElectLeaders (KIP-183, KIP-460) by hand: a request may be about every partition of the cluster."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from wire.api_codec import Request
from wire.framing import RequestHeader, decode_request_header, encode_response_header
from wire.primitives import FORMATS, Cursor
from wire.versions import is_flexible

FIRST_WITH_TYPE: Final = 1
"""The first version that knows other than preferred elections, and a top-level error."""


@dataclass(frozen=True, slots=True)
class ElectLeadersQuery:
    """A decoded request; ``partitions`` is None for all of them."""

    election_type: int
    partitions: Sequence[TopicPartition] | None
    timeout_ms: int


class RowResult(NamedTuple):
    """The outcome of one partition. Without a message, clients print their own text for the error."""

    partition: int
    error: KafkaError
    message: str | None = None


def decode_elect_leaders(request: Request) -> ElectLeadersQuery:
    """Read a request. :raises MalformedMessage: anything is wrong with its bytes."""
    key, version = request.head.api_key, request.head.version
    cursor = Cursor(request.frame, decode_request_header(request.frame)[1], flexible=is_flexible(key, version))
    (kind,) = struct.unpack("b", cursor.take(1)) if version >= FIRST_WITH_TYPE else (0,)
    partitions = _read_partitions(cursor)
    timeout_ms = cursor.int32()
    cursor.skip_tags()
    cursor.end()
    return ElectLeadersQuery(kind, partitions, timeout_ms)


def _read_partitions(cursor: Cursor) -> list[TopicPartition] | None:
    topics = cursor.nullable_count()
    if topics is None:
        return None
    found = []
    for _ in range(topics):
        topic = cursor.string()
        found += [TopicPartition(topic, index) for index in cursor.int32s()]
        cursor.skip_tags()
    return found


def encode_elect_leaders(head: RequestHeader, error: KafkaError, topics: Mapping[str, Sequence[RowResult]]) -> bytes:
    """Encode the response. Version 0 has no top-level error, so it is left out."""
    form = FORMATS[is_flexible(head.api_key, head.version)]
    top_level = struct.pack(">h", error) if head.version >= FIRST_WITH_TYPE else b""
    out = [
        encode_response_header(head.api_key, head.version, head.correlation_id),
        struct.pack(">i", 0),
        top_level,
        form.count(len(topics)),
    ]
    for topic, rows in topics.items():
        out.append(form.string(topic) + form.count(len(rows)))
        out.extend(
            struct.pack(">ih", row.partition, row.error) + form.nullable_string(row.message) + form.tags for row in rows
        )
        out.append(form.tags)
    out.append(form.tags)
    return b"".join(out)
