"""Convert control requests of any version, as kio decodes them, into the values that the controller encoded.

The broker uses kio on purpose. The controller encodes with templates of its own, and a broker that decoded with the
same templates would share their mistakes.
"""

import uuid
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from controllerd.core.model import (
    NO_EPOCH,
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    SecurityProtocol,
    TopicPartition,
)
from controllerd.core.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from wire.errors import MalformedMessage
from wire.primitives import topic_id_bytes, topic_id_text

PLAINTEXT_NAME: Final = "PLAINTEXT"

E = TypeVar("E", bound=IntEnum)


def id_text(value: uuid.UUID | None) -> str | None:
    """Return a topic id as ZooKeeper and the controller write it; None for the zero id."""
    return None if value is None else topic_id_text(value.bytes)


def id_value(text: str | None) -> uuid.UUID | None:
    """Return a topic id as kio represents it."""
    return None if text is None else uuid.UUID(bytes=topic_id_bytes(text))


def leader_and_isr(entity: Any) -> LeaderAndIsrRequest:
    """Return a LeaderAndIsr request."""
    return LeaderAndIsrRequest(
        controller_id=entity.controller_id,
        controller_epoch=entity.controller_epoch,
        broker_epoch=getattr(entity, "broker_epoch", NO_EPOCH),
        partitions={tp: _leader_and_isr_partition(state) for tp, state in _states(entity)},
        topic_ids=_topic_ids(entity),
        live_leaders=tuple(
            (BrokerId(leader.broker_id), Endpoint(PLAINTEXT_NAME, leader.host_name, leader.port))
            for leader in entity.live_leaders
        ),
    )


def update_metadata(entity: Any) -> UpdateMetadataRequest:
    """Return an UpdateMetadata request."""
    body = UpdateMetadataBody(
        partitions={tp: _metadata_partition(state) for tp, state in _states(entity)},
        topic_ids=_topic_ids(entity),
        live_brokers=tuple(_live_broker(broker) for broker in entity.live_brokers),
    )
    epoch = getattr(entity, "broker_epoch", NO_EPOCH)
    return UpdateMetadataRequest(entity.controller_id, entity.controller_epoch, epoch, body)


def stop_replica(entity: Any) -> StopReplicaRequest:
    """Return a StopReplica request. Before version 3 it has one delete flag for all partitions and no leader epoch."""
    return StopReplicaRequest(
        controller_id=entity.controller_id,
        controller_epoch=entity.controller_epoch,
        broker_epoch=getattr(entity, "broker_epoch", NO_EPOCH),
        partitions=dict(_stopped(entity)),
    )


def listed_topics(entity: Any) -> dict[str, str | None]:
    """Return the topics of a request that groups by topic, each with its id or None."""
    states: Sequence[Any] = getattr(entity, "topic_states", ())
    return {topic.topic_name: id_text(getattr(topic, "topic_id", None)) for topic in states}


def _topic_ids(entity: Any) -> dict[str, str]:
    return {name: topic_id for name, topic_id in listed_topics(entity).items() if topic_id is not None}


def _states(entity: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for state in getattr(entity, "ungrouped_partition_states", ()):
        yield TopicPartition(state.topic_name, state.partition_index), state
    for topic in getattr(entity, "topic_states", ()):
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state


def _stopped(entity: Any) -> Iterator[tuple[TopicPartition, StopReplicaPartition]]:
    for topic in getattr(entity, "topic_states", ()):
        for state in topic.partition_states:
            stop = StopReplicaPartition(state.leader_epoch, state.delete_partition)
            yield TopicPartition(topic.topic_name, state.partition_index), stop
    for state in getattr(entity, "ungrouped_partitions", ()):
        stop = StopReplicaPartition(NO_EPOCH, entity.delete_partitions)
        yield TopicPartition(state.topic_name, state.partition_index), stop
    for topic in getattr(entity, "topics", ()):
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index), StopReplicaPartition(NO_EPOCH, entity.delete_partitions)


def _leader_and_isr_partition(state: Any) -> LeaderAndIsrPartition:
    assignment = ReplicaAssignment(
        replicas=tuple(state.replicas),
        adding=tuple(getattr(state, "adding_replicas", ())),
        removing=tuple(getattr(state, "removing_replicas", ())),
    )
    return LeaderAndIsrPartition(_leadership(state, state.partition_epoch), assignment, getattr(state, "is_new", False))


def _metadata_partition(state: Any) -> UpdateMetadataPartition:
    offline = tuple(getattr(state, "offline_replicas", ()))
    return UpdateMetadataPartition(_leadership(state, state.zk_version), tuple(state.replicas), offline)


def _leadership(state: Any, partition_epoch: int) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=BrokerId(state.leader),
        leader_epoch=state.leader_epoch,
        isr=tuple(state.isr),
        controller_epoch=state.controller_epoch,
        partition_epoch=partition_epoch,
        recovery_state=_member(LeaderRecoveryState, getattr(state, "leader_recovery_state", 0)),
    )


def _live_broker(broker: Any) -> Broker:
    """Return a live broker. Version 0 has one plaintext endpoint; before version 3 a protocol names its listener."""
    if hasattr(broker, "v0_host"):
        return Broker(BrokerId(broker.id_), NO_EPOCH, (Endpoint(PLAINTEXT_NAME, broker.v0_host, broker.v0_port),))
    return Broker(
        BrokerId(broker.id_), NO_EPOCH, tuple(map(_endpoint, broker.endpoints)), getattr(broker, "rack", None)
    )


def _endpoint(endpoint: Any) -> Endpoint:
    protocol = _member(SecurityProtocol, endpoint.security_protocol)
    return Endpoint(getattr(endpoint, "listener", protocol.name), endpoint.host, endpoint.port, protocol)


def _member(kind: type[E], code: int) -> E:
    """Return the member of an enumeration. :raises MalformedMessage: no member has this code."""
    try:
        return kind(code)
    except ValueError as error:
        raise MalformedMessage(str(error)) from error
