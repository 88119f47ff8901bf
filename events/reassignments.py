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
    failures: ClassVar[str] = (
        "Invalid JSON: alarm, and the znode stays and stays watched. An entry that cannot be carried out is removed "
        "from the znode, and the others are carried out."
    )


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment(Call[Mapping[TopicPartition, KafkaError]]):
    """AlterPartitionReassignments: new replicas per partition, None cancels."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = (
        "Per partition: INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS."
    )

    by: Requester
    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(Event):
    """The state znode of a reassigning partition changed (brokers below 2.7-IV2)."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = "Not caught up yet: nothing happens."

    tp: TopicPartition


@dataclass(frozen=True, slots=True)
class ReassignmentsMayComplete(Event):
    """The ISRs of these reassigning partitions changed: see whether all new replicas caught up (ours).

    A leader changed the ISR, or an unclean election made the new leader the ISR. It is an event of its own, so that a
    leader that changed the ISR has its answer before the reassignment goes on.
    """

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = "Not caught up yet: nothing happens."

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReassignmentRetry(Event):
    """Time to try writes of reassignments again that ZooKeeper refused a while ago (ours)."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = (
        "Refused again: the next attempt is made after twice the time, at most ten minutes. The end of the term ends "
        "the attempts: the next active controller resumes all unfinished reassignments."
    )


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments(Call[Mapping[TopicPartition, ReplicaAssignment]]):
    """A request for the assignments of those of the partitions (None: of all) that are being reassigned."""

    state: ClassVar[ControllerState] = ControllerState.LIST_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = "Unknown partitions are left out of the answer."

    partitions: frozenset[TopicPartition] | None


ReassignmentEvent = (
    ZkPartitionReassignment
    | ApiPartitionReassignment
    | PartitionReassignmentIsrChange
    | ReassignmentsMayComplete
    | ReassignmentRetry
    | ListPartitionReassignments
)
