"""What one broker tells its clients about the cluster, for whoever compares brokers: tests, the story, the CLI."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kio.schema.types import TopicName

from wire.connection import DEFAULT_TIMEOUT_S, KafkaConnection
from wire.kio_codec import decode_entity, encode_entity
from wire.primitives import topic_id_text
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey

_VERSION: Final = 12


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


async def fetch_metadata(
    host: str,
    port: int,
    topics: Iterable[str] | None = None,
    *,
    client_id: str = "controllerd-metadata",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    transport: Transport = PLAINTEXT,
) -> ClusterMetadata:
    """Ask one broker by Metadata version 12, about all topics unless some are named; never creates a topic.

    :raises OSError: it cannot be reached in time. :raises WireError: its answer cannot be used.
    """
    body = await fetch_encoded_metadata(
        host, port, topics, client_id=client_id, timeout_s=timeout_s, transport=transport
    )
    return await asyncio.to_thread(_decoded, body)  # of a large cluster it takes seconds


async def fetch_encoded_metadata(
    host: str,
    port: int,
    topics: Iterable[str] | None = None,
    *,
    client_id: str,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    transport: Transport = PLAINTEXT,
) -> bytes:
    """The same as it came, for whoever takes it apart himself.

    :raises OSError: it cannot be reached in time. :raises WireError: it refuses.
    """
    connection = await KafkaConnection.connect(
        host, port, client_id, connect_timeout_s=timeout_s, request_timeout_s=timeout_s, transport=transport
    )
    try:
        return await connection.request(ApiKey.METADATA, _VERSION, encode_entity(_request(topics)))
    finally:
        await connection.close()


def _request(topics: Iterable[str] | None) -> MetadataRequest:
    wanted = None if topics is None else [MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics]
    return MetadataRequest(
        topics=None if wanted is None else tuple(wanted),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def _decoded(body: bytes) -> ClusterMetadata:
    return _cluster(decode_entity(MetadataResponse, body))


def _cluster(response: MetadataResponse) -> ClusterMetadata:
    nodes = [NodeMetadata(node.node_id, node.host, node.port, node.rack) for node in response.brokers]
    topics = [_topic(topic) for topic in response.topics]
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers={node.id: node for node in nodes},
        topics={topic.name: topic for topic in topics},
    )


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    return TopicMetadata(
        name=topic.name or "",
        topic_id=None if topic.topic_id is None else topic_id_text(topic.topic_id.bytes),
        error=topic.error_code.value,
        is_internal=topic.is_internal,
        partitions={partition.partition_index: _partition(partition) for partition in topic.partitions},
    )


def _partition(partition: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        partition=partition.partition_index,
        error=partition.error_code.value,
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
        offline_replicas=partition.offline_replicas,
    )
