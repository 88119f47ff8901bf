"""Events of replicas: ISR changes and failed log directories."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from events.base import Call, ControllerState, Event


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(Event):
    """The children of ``/isr_change_notification`` changed (brokers below 2.7-IV2)."""

    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE
    failures: ClassVar[str] = (
        "A damaged notification is deleted after an alarm; a notification of a newer format is not changed."
    )


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(Event):
    """The children of ``/log_dir_event_notification`` changed."""

    state: ClassVar[ControllerState] = ControllerState.LOG_DIR_CHANGE
    failures: ClassVar[str] = (
        "A notification of an unknown broker is deleted; damaged ones as for IsrChangeNotification."
    )


class ProposedIsr(NamedTuple):
    """A leader's proposal for one partition in AlterPartition (KIP-497)."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


@dataclass(frozen=True, slots=True)
class AlterPartitionReply:
    """``error`` is the top-level one; each partition has either its present state, or the reason of its refusal.

    A partition without either is left out of the response, and its leader asks for it again.
    """

    error: KafkaError
    partitions: Mapping[TopicPartition, LeaderAndIsr | KafkaError]
    unknown_ids: Mapping[str, tuple[int, ...]]
    """Topic ids that we do not know, with the partitions asked for."""
    unknown_error: KafkaError = KafkaError.UNKNOWN_TOPIC_ID
    """The error for each unknown id. On the usual error, a leader does not ask again; on any other error, it does."""
    costs_writes: bool = False
    """Whether a member was refused by a write; the leader may cause the next one at the follower's next fetch."""


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived(Call[AlterPartitionReply]):
    """A leader asks to change the ISR of its partitions.

    From version 2 on topics come by id: ``by_id`` holds them as they came, since only the handler may look ids up.
    """

    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE
    failures: ClassVar[str] = (
        "Per partition: FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, INVALID_REQUEST, "
        "NOT_CONTROLLER (the leader has a higher epoch than the controller), UNKNOWN_TOPIC_ID, UNKNOWN_SERVER_ERROR "
        "(ask again: in quarantine). A lost compare-and-set brings the leader a newer leader epoch."
    )

    broker: BrokerId
    broker_epoch: int
    version: int
    by_name: Mapping[TopicPartition, ProposedIsr]
    by_id: Mapping[tuple[str, int], ProposedIsr]
    """The proposals by base64url topic id and partition."""


ReplicaEvent = IsrChangeNotification | LogDirEventNotification | AlterPartitionReceived
