"""Calls of brokers and admin clients that are not about one of the other families."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from events.base import Call, ControllerState


@dataclass(frozen=True, slots=True)
class ControlledShutdownReply:
    """``remaining`` are the partitions that the broker still leads; it may stop when there are none."""

    error: KafkaError
    remaining: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Call[ControlledShutdownReply]):
    """A broker wants to stop and asks to be relieved first. Broker epoch -1: unknown to the asker."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLED_SHUTDOWN

    broker: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """``length`` producer ids from ``start`` on; meaningful only without error."""

    error: KafkaError
    start: int = -1
    length: int = 0


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Call[ProducerIdBlock]):
    """A broker wants a block of producer ids (KIP-730). ``broker`` is our own node id for our own block."""

    state: ClassVar[ControllerState] = ControllerState.IDLE

    broker: BrokerId
    broker_epoch: int


class FeatureUpdate(NamedTuple):
    """One feature to raise or (``allow_downgrade``) lower; level 0 deletes it."""

    max_version_level: int
    allow_downgrade: bool


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Call[Mapping[str, KafkaError] | KafkaError]):
    """Finalize feature levels (KIP-584). A bare error is the answer to the request as a whole."""

    state: ClassVar[ControllerState] = ControllerState.UPDATE_FEATURES

    updates: Mapping[str, FeatureUpdate]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; counts of -1 mean the configured default."""

    partitions: int
    replication_factor: int
    assignments: Mapping[int, tuple[BrokerId, ...]]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateTopics(Call[Mapping[str, KafkaError]]):
    """An admin client creates topics (ours: brokers did it outside the queue)."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE

    topics: Mapping[str, NewTopic]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopics(Call[Mapping[str, KafkaError]]):
    """An admin client deletes topics (ours)."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class CreatePartitions(Call[Mapping[str, KafkaError]]):
    """An admin client adds partitions to topics (ours); the count is the new total."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE

    counts: Mapping[str, int]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What forgetting a broker set free: the topics whose deletion waited for it, and how many replicas it owes."""

    topics: tuple[str, ...]
    replicas: int


@dataclass(frozen=True, slots=True)
class ForgetBroker(Call[Forgotten]):
    """An operator declares that a broker never returns: its replicas no longer block deletions (ours).

    What it still has on its disks becomes a debt that is paid should it return after all (KAFKA-10548).
    """

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE

    broker: BrokerId
    reason: str = ""
