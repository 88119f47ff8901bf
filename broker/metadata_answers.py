"""Answer requests of clients about the cluster from the metadata cache, as a stock broker does."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker import decode
from broker.state import BrokerState
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_LEADER, BrokerId
from controllerd.core.requests import UpdateMetadataPartition
from wire.api_metadata import MetadataQuery, MetadataRequestTopic
from wire.framing import RequestHeader

Row = Mapping[str, object]

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_LISTENER_NOT_FOUND: Final = 6
_NULL_NAME: Final = 12


async def metadata(state: BrokerState, head: RequestHeader, request: MetadataQuery) -> Row:
    """Answer Metadata: all topics or the requested ones. An unknown topic is never created."""
    if request.topics is None:
        topics = [_topic(state, head, name) for name in state.cache.topics]
    else:
        topics = [_wanted(state, head, topic) for topic in request.topics]
    return {
        "brokers": _nodes(state, "node_id"),
        "cluster_id": state.cluster_id,
        "controller_id": state.cache.controller_id,
        "topics": topics,
    }


async def describe_cluster(state: BrokerState, _: RequestHeader, request: Any) -> Row:
    """Answer DescribeCluster about brokers only; a broker in ZooKeeper mode knows no quorum of controllers."""
    kind = getattr(request, "endpoint_type", _BROKERS)
    if kind == _BROKERS:
        error = KafkaError.NONE
    else:
        error = KafkaError.MISMATCHED_ENDPOINT_TYPE if kind == _CONTROLLERS else KafkaError.UNSUPPORTED_ENDPOINT_TYPE
    return {
        "error_code": error,
        "endpoint_type": kind,
        "cluster_id": state.cluster_id,
        "controller_id": state.cache.controller_id,
        "brokers": _nodes(state, "broker_id") if error is KafkaError.NONE else [],
    }


def _nodes(state: BrokerState, id_name: str) -> list[Row]:
    """Return the live brokers that have the listener of the request; this broker has one listener."""
    listener = state.settings.listener.listener
    return [
        {id_name: broker.id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
        for broker in state.cache.brokers.values()
        if (endpoint := broker.endpoint(listener)) is not None
    ]


def _wanted(state: BrokerState, head: RequestHeader, topic: MetadataRequestTopic) -> Row:
    """Return a topic by name, or by id if the request has no name (version 12)."""
    if topic.name is not None:
        return _topic(state, head, topic.name)
    name = state.cache.topic_name(topic.topic_id or "")
    if name is not None:
        return _topic(state, head, name)
    unnamed = None if head.version >= _NULL_NAME else ""
    return _row(KafkaError.UNKNOWN_TOPIC_ID, unnamed, decode.id_value(topic.topic_id), ())


def _topic(state: BrokerState, head: RequestHeader, name: str) -> Row:
    partitions = state.cache.topics.get(name)
    if partitions is None:
        return _row(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, name, None, ())
    rows = [_partition(state, head, index, cached) for index, cached in sorted(partitions.items())]
    return _row(KafkaError.NONE, name, decode.id_value(state.cache.topic_id(name)), rows)


def _row(error: KafkaError, name: str | None, topic_id: object, partitions: Iterable[Row]) -> Row:
    internal = name in _INTERNAL
    return {"error_code": error, "name": name, "topic_id": topic_id, "is_internal": internal, "partitions": partitions}


def _partition(state: BrokerState, head: RequestHeader, index: int, cached: UpdateMetadataPartition) -> Row:
    """Return a partition. Its leader is left out if it is not live, or lacks the listener of the request."""
    error, leader = _leader(state, head, cached)
    replicas, isr = cached.replicas, cached.state.isr
    if head.version == 0:
        # Clients of version 0 cannot look up a replica that is not among the brokers.
        replicas, isr = _live(state, replicas), _live(state, isr)
        if error is KafkaError.NONE and len(replicas) < len(cached.replicas):
            error = KafkaError.REPLICA_NOT_AVAILABLE
    return {
        "error_code": error,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": cached.state.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": isr,
        "offline_replicas": cached.offline_replicas,
    }


def _leader(state: BrokerState, head: RequestHeader, cached: UpdateMetadataPartition) -> tuple[KafkaError, BrokerId]:
    leader = cached.state.leader
    if state.cache.endpoint(leader, state.settings.listener.listener) is not None:
        return KafkaError.NONE, leader
    if leader in state.cache.brokers and head.version >= _LISTENER_NOT_FOUND:
        return KafkaError.LISTENER_NOT_FOUND, NO_LEADER
    return KafkaError.LEADER_NOT_AVAILABLE, NO_LEADER


def _live(state: BrokerState, replicas: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return tuple(replica for replica in replicas if replica in state.cache.brokers)
