"""Read the metadata of one broker, for comparisons of brokers by tests, the demo and the CLI.

kio decodes a response in one call, which takes seconds for 100,000 partitions. ``walk_topics`` decodes the same bytes
one partition at a time, so that the event loop is not blocked; ``tests/wire`` compares the two.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from kio.schema.metadata.v9 import request as request_v9
from kio.schema.metadata.v9 import response as response_v9
from kio.schema.metadata.v11 import response as response_v11
from kio.schema.metadata.v12 import request as request_v12
from kio.schema.metadata.v12 import response as response_v12
from kio.schema.types import TopicName

from wire.connection import DEFAULT_TIMEOUT_S, KafkaConnection
from wire.errors import UnsupportedByPeer
from wire.kio_codec import decode_entity, encode_entity
from wire.primitives import Cursor, topic_id_text
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey, VersionRange

TOPIC_IDS_FROM_VERSION: Final = 10
"""The first version of Metadata with topic ids (KIP-516)."""
_Request = request_v9.MetadataRequest | request_v12.MetadataRequest
_Response = response_v9.MetadataResponse | response_v11.MetadataResponse | response_v12.MetadataResponse
_Topic = response_v9.MetadataResponseTopic | response_v11.MetadataResponseTopic | response_v12.MetadataResponseTopic
_Partition = (
    response_v9.MetadataResponsePartition
    | response_v11.MetadataResponsePartition
    | response_v12.MetadataResponsePartition
)
# Brokers of 2.6 and 2.7 know Metadata up to 9, those of 2.8 and 3.0 up to 11; no release ends at 10.
_RESPONSES: Final[Mapping[int, type[_Response]]] = {
    12: response_v12.MetadataResponse,
    11: response_v11.MetadataResponse,
    9: response_v9.MetadataResponse,
}


@dataclass(frozen=True, slots=True)
class NodeMetadata:
    """A broker as clients see it, on the listener that was asked."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition as clients see it; ``error`` is a Kafka code, 5 while it has no leader."""

    partition: int
    error: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as clients see it; ``topic_id`` is base64url, None when it has none."""

    name: str
    topic_id: str | None
    error: int
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The answer of one broker; ``controller_id`` is -1 when it knows none."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, NodeMetadata]
    topics: Mapping[str, TopicMetadata]


class EncodedMetadata(NamedTuple):
    """An undecoded Metadata answer, and its version."""

    version: int
    body: bytes


async def fetch_metadata(
    host: str,
    port: int,
    topics: Iterable[str] | None = None,
    *,
    client_id: str = "controllerd-metadata",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    transport: Transport = PLAINTEXT,
) -> ClusterMetadata:
    """Ask one broker of any release from 2.6 on, about all topics unless some are named; never creates a topic.

    :raises OSError: it cannot be reached in time. :raises WireError: its answer cannot be used.
    """
    answer = await fetch_encoded_metadata(
        host, port, topics, client_id=client_id, timeout_s=timeout_s, transport=transport
    )
    return await asyncio.to_thread(_decoded, answer)  # takes seconds for a large cluster


async def fetch_encoded_metadata(
    host: str,
    port: int,
    topics: Iterable[str] | None = None,
    *,
    client_id: str,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    transport: Transport = PLAINTEXT,
) -> EncodedMetadata:
    """Ask for the same and return the undecoded answer, for callers that decode it themselves.

    :raises OSError: it cannot be reached in time. :raises WireError: it refuses.
    """
    connection = await KafkaConnection.connect(
        host, port, client_id, connect_timeout_s=timeout_s, request_timeout_s=timeout_s, transport=transport
    )
    try:
        version = _shared_version(await connection.api_versions())
        body = await connection.request(ApiKey.METADATA, version, encode_entity(_request(version, topics)))
        return EncodedMetadata(version, body)
    finally:
        await connection.close()


def _shared_version(peer: Mapping[int, VersionRange]) -> int:
    """Return the highest version of both ends: a broker closes the connection at a version that it does not know."""
    spoken = peer.get(ApiKey.METADATA)
    if spoken is None or not (shared := [version for version in _RESPONSES if version in spoken]):
        raise UnsupportedByPeer(f"METADATA: peer speaks {spoken}, we speak {sorted(_RESPONSES)}")
    return max(shared)


def _request(version: int, topics: Iterable[str] | None) -> _Request:
    names = None if topics is None else [TopicName(name) for name in topics]
    if version < TOPIC_IDS_FROM_VERSION:
        return request_v9.MetadataRequest(
            topics=None if names is None else tuple(request_v9.MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    # A request of version 11 has the bytes of one of version 12.
    wanted = None if names is None else tuple(request_v12.MetadataRequestTopic(topic_id=None, name=n) for n in names)
    return request_v12.MetadataRequest(
        topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def _decoded(answer: EncodedMetadata) -> ClusterMetadata:
    return _cluster(decode_entity(_RESPONSES[answer.version], answer.body))


def _cluster(response: _Response) -> ClusterMetadata:
    nodes = [NodeMetadata(node.node_id, node.host, node.port, node.rack) for node in response.brokers]
    topics = [_topic(topic) for topic in response.topics]
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers={node.id: node for node in nodes},
        topics={topic.name: topic for topic in topics},
    )


def _topic(topic: _Topic) -> TopicMetadata:
    topic_id = None if isinstance(topic, response_v9.MetadataResponseTopic) else topic.topic_id
    return TopicMetadata(
        name=topic.name or "",
        topic_id=None if topic_id is None else topic_id_text(topic_id.bytes),
        error=topic.error_code.value,
        is_internal=topic.is_internal,
        partitions={partition.partition_index: _partition(partition) for partition in topic.partitions},
    )


def _partition(partition: _Partition) -> PartitionMetadata:
    return PartitionMetadata(
        partition=partition.partition_index,
        error=partition.error_code.value,
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
        offline_replicas=partition.offline_replicas,
    )


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
        yield from _walk_topic(cursor, with_id=answer.version >= TOPIC_IDS_FROM_VERSION)
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


def _walk_topic(cursor: Cursor, *, with_id: bool) -> Iterator[TopicMetadata | None]:
    error, name = cursor.int16(), cursor.nullable_string() or ""
    topic_id = topic_id_text(cursor.take(_ID_SIZE)) if with_id else None
    is_internal = cursor.take(1) != b"\x00"
    partitions: dict[int, PartitionMetadata] = {}
    for _ in range(cursor.count()):
        row = _walk_partition(cursor)
        partitions[row.partition] = row
        yield None
    cursor.int32()  # authorized operations
    cursor.skip_tags()
    yield TopicMetadata(name, topic_id, error, is_internal, partitions)


def _walk_partition(cursor: Cursor) -> PartitionMetadata:
    error, partition, leader, leader_epoch = _NUMBERS.unpack(cursor.take(_NUMBERS.size))
    replicas, isr, offline = cursor.int32s(), cursor.int32s(), cursor.int32s()
    cursor.skip_tags()
    return PartitionMetadata(partition, error, leader, leader_epoch, replicas, isr, offline)
