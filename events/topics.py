"""Events of topics and their deletion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from events.base import ControllerState, Event


@dataclass(frozen=True, slots=True)
class TopicChange(Event):
    """The children of ``/brokers/topics`` changed."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE
    failures: ClassVar[str] = (
        "A damaged topic znode is put in quarantine; a partition with a repeated broker is left out; an assignment "
        "that names controllerd is replaced first; a partition without a live replica waits."
    )


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """The data of a topic znode changed."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE
    failures: ClassVar[str] = (
        "As TopicChange. Partitions that are added while the topic is being deleted are removed again."
    )

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion(Event):
    """The children of ``/admin/delete_topics`` changed."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION
    failures: ClassVar[str] = (
        "An unknown topic: its marker is deleted. Deletion disabled: all markers are deleted. A topic that cannot be "
        "deleted now waits, and the status has the reason."
    )


@dataclass(frozen=True, slots=True)
class TopicDeletionRetry(Event):
    """Time to try deletions again that a broker or ZooKeeper refused a while ago (ours)."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION
    failures: ClassVar[str] = "Refused again: the next attempt is made after twice the time, at most ten minutes."


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived(Event):
    """A broker answered a StopReplica that deletes replicas, of topics or of ended reassignments.

    ``broker_epoch`` and ``controller_epoch`` are from the request: an answer to an earlier life is ignored.
    """

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION
    failures: ClassVar[str] = "A failed deletion of a replica halts its topic and is tried again."

    broker: BrokerId
    broker_epoch: int
    controller_epoch: int
    error: KafkaError
    partition_errors: Mapping[TopicPartition, KafkaError]


TopicEvent = (
    TopicChange | PartitionModifications | TopicDeletion | TopicDeletionRetry | TopicDeletionStopReplicaResponseReceived
)
