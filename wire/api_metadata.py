"""Encode Metadata by hand in pieces: a response may have all partitions, and must not block the event loop.

This module has the layout of all versions 0 to 12; the tests compare each version with kio's schema.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from wire.api_codec import Request, entity_of
from wire.framing import RequestHeader, decode_request_header, encode_response_header
from wire.primitives import FORMATS, topic_id_bytes, topic_id_text

NO_OPERATIONS: Final = -(2**31)
"""The value for authorized operations that were not requested."""

_NULL_MEANS_ALL: Final = 1
_THROTTLE: Final = 3
_OFFLINE: Final = 5
_LEADER_EPOCH: Final = 7
_OPERATIONS: Final = 8
_FLEXIBLE: Final = 9
_TOPIC_IDS: Final = 10
_CLUSTER_OPERATIONS: Final = range(8, 11)
_NULL_NAME: Final = 12
_PADDED_NULL: Final = bytes(4)


class MetadataRequestTopic(NamedTuple):
    """One topic of a request: by name, or (from version 12 on) by base64url id."""

    name: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class MetadataQuery:
    """A Metadata request; ``topics`` is None for all of them."""

    topics: Sequence[MetadataRequestTopic] | None
    allow_auto_creation: bool
    wants_topic_operations: bool
    wants_cluster_operations: bool


class NodeRow(NamedTuple):
    """One broker, with its endpoint for the listener of the request."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionRow(NamedTuple):
    """One partition of an answer."""

    error: KafkaError
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]


class TopicRow(NamedTuple):
    """One topic of an answer; ``name`` is None for an unknown id."""

    error: KafkaError
    name: str | None
    topic_id: str | None
    is_internal: bool
    partitions: Iterable[PartitionRow]
    partition_count: int


@dataclass(frozen=True, slots=True)
class MetadataHead:
    """A response without its topics."""

    nodes: Sequence[NodeRow]
    cluster_id: str | None
    controller_id: int
    topic_operations: int = NO_OPERATIONS
    cluster_operations: int = NO_OPERATIONS


def decode_metadata(request: Request) -> MetadataQuery:
    """Read a request. :raises MalformedMessage: anything is wrong with its bytes."""
    entity, version = entity_of(_without_padding(request)), request.head.version
    topics = entity.topics
    if version < _NULL_MEANS_ALL and not topics:
        topics = None
    wanted = None if topics is None else [MetadataRequestTopic(topic.name, _topic_id(topic)) for topic in topics]
    return MetadataQuery(
        wanted,
        bool(getattr(entity, "allow_auto_topic_creation", True)),
        bool(getattr(entity, "include_topic_authorized_operations", False)),
        bool(getattr(entity, "include_cluster_authorized_operations", False)),
    )


def _without_padding(request: Request) -> Request:
    """Correct a bug of librdkafka (its issue 5049).

    In flexible versions it writes the null list of all topics as four bytes instead of one. Brokers do not notice it,
    because they ignore bytes behind a body.
    """
    if request.head.version < _FLEXIBLE:
        return request
    _, start = decode_request_header(request.frame)
    body = request.frame[start:]
    flags = 3 if request.head.version in _CLUSTER_OPERATIONS else 2
    if len(body) != len(_PADDED_NULL) + flags + 1 or not body.startswith(_PADDED_NULL):
        return request
    return Request(request.head, request.frame[:start] + body[len(_PADDED_NULL) - 1 :])


def _topic_id(topic: object) -> str | None:
    raw = getattr(topic, "topic_id", None)
    return None if raw is None else topic_id_text(raw.bytes)


def encode_metadata(
    request: RequestHeader, answer: MetadataHead, topics: Sequence[TopicRow], *, slice_size: int = 1_000
) -> Iterator[bytes]:
    """Yield the pieces of a response, each of about ``slice_size`` rows; the caller may yield to the loop between."""
    layout = _Layout(request.version)
    piece = [
        encode_response_header(request.api_key, request.version, request.correlation_id),
        layout.start(answer, len(topics)),
    ]
    for topic in topics:
        if len(piece) >= slice_size:  # a topic need not have partitions
            yield b"".join(piece)
            piece.clear()
        piece.append(layout.topic_start(topic))
        for partition in topic.partitions:
            piece.append(layout.partition(partition))
            if len(piece) >= slice_size:
                yield b"".join(piece)
                piece.clear()
        piece.append(layout.topic_end(answer))
    piece.append(layout.end(answer))
    yield b"".join(piece)


class _Layout:
    """The fields that one version has."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.flexible = version >= _FLEXIBLE
        self.format = FORMATS[self.flexible]
        self.tags = self.format.tags

    def start(self, answer: MetadataHead, topics: int) -> bytes:
        out = [struct.pack(">i", 0) if self.version >= _THROTTLE else b""]
        out.append(self.format.count(len(answer.nodes)))
        out.extend(self._node(node) for node in answer.nodes)
        if self.version >= 2:
            out.append(self.format.nullable_string(answer.cluster_id))
        if self.version >= 1:
            out.append(struct.pack(">i", answer.controller_id))
        out.append(self.format.count(topics))
        return b"".join(out)

    def _node(self, node: NodeRow) -> bytes:
        rack = self.format.nullable_string(node.rack) if self.version >= 1 else b""
        host = self.format.string(node.host)
        return struct.pack(">i", node.node_id) + host + struct.pack(">i", node.port) + rack + self.tags

    def topic_start(self, topic: TopicRow) -> bytes:
        # Before version 12 the name cannot be null.
        name = topic.name if self.version >= _NULL_NAME else topic.name or ""
        out = [struct.pack(">h", topic.error), self.format.nullable_string(name)]
        if self.version >= _TOPIC_IDS:
            out.append(topic_id_bytes(topic.topic_id))
        if self.version >= 1:
            out.append(struct.pack(">?", topic.is_internal))
        out.append(self.format.count(topic.partition_count))
        return b"".join(out)

    def topic_end(self, answer: MetadataHead) -> bytes:
        operations = struct.pack(">i", answer.topic_operations) if self.version >= _OPERATIONS else b""
        return operations + self.tags

    def end(self, answer: MetadataHead) -> bytes:
        wanted = self.version in _CLUSTER_OPERATIONS
        return (struct.pack(">i", answer.cluster_operations) if wanted else b"") + self.tags

    def partition(self, row: PartitionRow) -> bytes:
        has_offline = self.version >= _OFFLINE
        epoch = (row.leader_epoch,) if self.version >= _LEADER_EPOCH else ()
        layout, replicas, isr, offline = _partition_struct(
            self.flexible, len(epoch), len(row.replicas), len(row.isr), len(row.offline) if has_offline else -1
        )
        start = (row.error, row.partition, row.leader, *epoch)
        if not has_offline:
            return layout.pack(*start, replicas, *row.replicas, isr, *row.isr, self.tags)
        return layout.pack(*start, replicas, *row.replicas, isr, *row.isr, offline, *row.offline, self.tags)


@lru_cache(maxsize=4_096)
def _partition_struct(
    flexible: bool,
    epochs: int,
    replicas: int,
    isr: int,
    offline: int,
) -> tuple[struct.Struct, bytes, bytes, bytes]:
    """Return the layout of a partition with arrays of these lengths, and the encoded lengths."""
    lengths = [FORMATS[flexible].count(n) for n in (replicas, isr, max(offline, 0))]
    arrays = "".join(f"{len(lengths[i])}s{n}i" for i, n in enumerate((replicas, isr, offline)) if n >= 0)
    return struct.Struct(f">hii{'i' * epochs}{arrays}{int(flexible)}s"), lengths[0], lengths[1], lengths[2]
