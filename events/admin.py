"""Calls of brokers and admin clients, as far as the other modules of the package do not define them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.mutation_quota import NO_THROTTLE, ThrottleTime
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.releases import NEWEST, Release
from controllerd.core.scram import ScramChange
from controllerd.core.topic_creation import TopicRequest
from events.base import Call, ControllerState


@dataclass(frozen=True, slots=True)
class Requester:
    """The client that asks, for the audit log and for quotas. ``user`` is the principal's name without its type."""

    principal: str
    user: str
    client_id: str
    version: int
    peer: str


@dataclass(frozen=True, slots=True)
class ControlledShutdownReply:
    """The outcome of a controlled shutdown: ``remaining`` are the partitions that the broker still leads.

    The broker may stop when there are none.
    """

    error: KafkaError
    remaining: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Call[ControlledShutdownReply]):
    """A broker is about to stop and asks the controller to move its leaderships away; epoch -1: it knows no epoch."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLED_SHUTDOWN
    failures: ClassVar[str] = (
        "BROKER_NOT_AVAILABLE for an unknown broker, STALE_BROKER_EPOCH. Partitions that no other replica can lead "
        "are in the answer, and the broker asks again."
    )

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
    """A broker asks for a block of producer ids (KIP-730). ``broker`` is our own node id if the block is for us."""

    state: ClassVar[ControllerState] = ControllerState.IDLE
    failures: ClassVar[str] = (
        "STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED; a block that cannot be decoded: UNKNOWN_SERVER_ERROR and an "
        "alarm."
    )

    broker: BrokerId
    broker_epoch: int


class FeatureUpdate(NamedTuple):
    """One feature to raise or (``allow_downgrade``) lower; level 0 deletes it."""

    max_version_level: int
    allow_downgrade: bool


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Call[Mapping[str, KafkaError] | KafkaError]):
    """An admin client finalizes feature levels (KIP-584). A reply that is a single error is about the whole request."""

    state: ClassVar[ControllerState] = ControllerState.UPDATE_FEATURES
    failures: ClassVar[str] = (
        "Per feature: INVALID_REQUEST, FEATURE_UPDATE_FAILED; the others are written. Below 2.7: INVALID_REQUEST for "
        "the request as a whole."
    )

    by: Requester
    updates: Mapping[str, FeatureUpdate]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The outcome of one topic of a request. A field that is not known has its default, as with most refusals.

    ``partitions`` are the partitions that the request created: the client may wait until they have leaders.
    """

    refusal: Refusal | None = None
    topic_id: str | None = None
    partitions: frozenset[int] = frozenset()
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    release: Release = NEWEST
    """The oldest release that accepted ``configs``; its rules are used to parse them."""


@dataclass(frozen=True, slots=True)
class MutationReply:
    """The topics in the order of the request, and how long the client should wait before it asks again (KIP-599)."""

    outcomes: Mapping[str, TopicOutcome]
    throttle: ThrottleTime = NO_THROTTLE


@dataclass(frozen=True, slots=True)
class CreateTopics(Call[MutationReply]):
    """An admin client creates topics (ours: brokers did it outside the queue). No name comes twice."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE
    failures: ClassVar[str] = (
        "Per topic: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, "
        "INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR "
        "(ZooKeeper refuses it); the others are created. A topic is written with its configuration or not at all."
    )

    by: Requester
    topics: tuple[TopicRequest, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopics(Call[MutationReply]):
    """An admin client deletes topics (ours). No name comes twice; ids were resolved before."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION
    failures: ClassVar[str] = (
        "Per topic: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED, THROTTLING_QUOTA_EXCEEDED. A deletion that "
        "cannot begin now waits, as for TopicDeletion."
    )

    by: Requester
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreatePartitions(Call[MutationReply]):
    """An admin client adds partitions to topics (ours); the total is the new one. No topic comes twice."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE
    failures: ClassVar[str] = (
        "Per topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (being deleted), INVALID_PARTITIONS, "
        "INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR (the "
        "znode cannot be decoded, or another writer keeps changing it)."
    )

    by: Requester
    topics: tuple[GrowthRequest, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterScram(Call[Mapping[str, Refusal | None]]):
    """An admin client changes SCRAM credentials of users (KIP-554; ours: brokers did it outside the queue)."""

    state: ClassVar[ControllerState] = ControllerState.IDLE
    failures: ClassVar[str] = (
        "Per user: UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL, DUPLICATE_RESOURCE, RESOURCE_NOT_FOUND (a "
        "credential to delete), UNKNOWN_SERVER_ERROR with an alarm (the znode cannot be decoded or written); the "
        "others are changed."
    )

    by: Requester
    changes: Mapping[str, ScramChange] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The outcome of forgetting a broker: the topics whose deletion waited for it, and its pending deletions."""

    topics: tuple[str, ...]
    replicas: int


@dataclass(frozen=True, slots=True)
class ForgetBroker(Call[Forgotten]):
    """An operator declares that a broker never returns: its replicas no longer block deletions (ours).

    The deletion of the replicas on its disks becomes pending, and is sent if it returns after all (KAFKA-10548).
    """

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE
    failures: ClassVar[str] = "A registered broker: refused. If no topic waits for the broker, nothing happens."

    broker: BrokerId
    reason: str = ""


AdminEvent = (
    ControlledShutdown
    | AllocateProducerIds
    | UpdateFeatures
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterScram
    | ForgetBroker
)
