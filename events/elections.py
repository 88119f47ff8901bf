"""Events that ask for leader elections."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from events.admin import Requester
from events.base import Call, ControllerState, Event


class ElectionType(Enum):
    """KIP-460: preferred replica, or any live replica at the risk of losing records."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionTrigger(Enum):
    """The cause of an election."""

    ADMIN_CLIENT = "AdminClientTriggered"
    ZOOKEEPER = "ZkTriggered"
    AUTO = "AutoTriggered"


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection(Call[Mapping[TopicPartition, BrokerId | KafkaError]]):
    """A request for elections; ``partitions`` is None for the partitions that the znode names, or for all.

    ``by`` is the admin client; a znode does not say who wrote it.
    """

    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE
    failures: ClassVar[str] = (
        "Per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (being deleted), ELECTION_NOT_NEEDED, "
        "PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE. A damaged znode is deleted after an alarm."
    )

    partitions: frozenset[TopicPartition] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    by: Requester | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the reply: no caller waits for an election that the znode requests."""
        return self.trigger is not ElectionTrigger.ZOOKEEPER


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection(Event):
    """Time to check the leader imbalance of every broker."""

    state: ClassVar[ControllerState] = ControllerState.AUTO_LEADER_BALANCE
    failures: ClassVar[str] = (
        "A preferred replica outside the ISR is not elected. The next check is scheduled in any case."
    )


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable(Event):
    """The default of ``unclean.leader.election.enable`` became true."""

    state: ClassVar[ControllerState] = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
    failures: ClassVar[str] = "Partitions without a live replica stay offline."


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable(Event):
    """``unclean.leader.election.enable`` of one topic became true."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
    failures: ClassVar[str] = "As UncleanLeaderElectionEnable."

    topic: str


@dataclass(frozen=True, slots=True)
class ConfigChange(Event):
    """The children of ``/config/changes`` changed; only brokers are notified, so the controller watches them (ours)."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
    failures: ClassVar[str] = "A damaged notification or configuration is not changed and raises an alarm."


ElectionEvent = (
    ReplicaLeaderElection
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | TopicUncleanLeaderElectionEnable
    | ConfigChange
)
