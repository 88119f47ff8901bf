"""Events of partition reassignment (KIP-455)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from events.admin import Requester
from events.base import Call, ControllerState, Event


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment(Event):
    """``/admin/reassign_partitions`` was created."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment(Call[Mapping[TopicPartition, KafkaError]]):
    """AlterPartitionReassignments: new replicas per partition, None cancels."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    by: Requester
    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(Event):
    """The state znode of a reassigning partition changed (brokers below 2.7-IV2)."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    tp: TopicPartition


@dataclass(frozen=True, slots=True)
class ReassignmentsMayComplete(Event):
    """The ISRs of these reassigning partitions changed: see whether all new replicas caught up (ours).

    A leader changed the ISR, or an unclean election made the new leader the ISR. It is an event of its own, so that a
    leader that changed the ISR has its answer before the reassignment goes on.
    """

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReassignmentRetry(Event):
    """Time to try writes of reassignments again that ZooKeeper refused a while ago (ours)."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments(Call[Mapping[TopicPartition, ReplicaAssignment]]):
    """A request for the assignments of those of the partitions (None: of all) that are being reassigned."""

    state: ClassVar[ControllerState] = ControllerState.LIST_PARTITION_REASSIGNMENT

    partitions: frozenset[TopicPartition] | None
