"""Control requests as data, before any byte of them exists.

``channel_manager.batch`` builds them, ``wire`` encodes them, the audit log records them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition


class LeaderAndIsrPartition(NamedTuple):
    """One partition of a LeaderAndIsr request."""

    state: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool


class UpdateMetadataPartition(NamedTuple):
    """One partition of an UpdateMetadata request; ``state.leader`` is -2 for a topic that is being deleted."""

    state: LeaderAndIsr
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class StopReplicaPartition(NamedTuple):
    """One partition of a StopReplica request; ``leader_epoch`` is -2 for deletion and -1 when unknown."""

    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """The partitions that one broker leads or follows."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, LeaderAndIsrPartition]
    topic_ids: Mapping[str, str]
    """Topic name to base64url id; a topic without id is absent."""
    live_leaders: tuple[tuple[BrokerId, Endpoint], ...]


@dataclass(frozen=True, eq=False)
class UpdateMetadataBody:
    """The part of UpdateMetadata that is the same for every broker, so that it is encoded once.

    Compared by identity on purpose: the encoder keeps the bytes per protocol version beside this very object.
    """

    partitions: Mapping[TopicPartition, UpdateMetadataPartition]
    topic_ids: Mapping[str, str]
    live_brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """For one broker: the live brokers, the controller, and the state of some partitions."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    body: UpdateMetadataBody


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """The partitions that one broker is to stop fetching, and to delete where they are marked so."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, StopReplicaPartition]


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


def api_name(request: ControlRequest) -> str:
    """Kafka's name of the API of this request."""
    return type(request).__name__.removesuffix("Request")


@dataclass(frozen=True, slots=True)
class ControlResponse:
    """A broker's answer to a control request, decoded; partitions that are absent got ``NONE``."""

    api: str
    error: KafkaError
    partition_errors: Mapping[TopicPartition, KafkaError]
