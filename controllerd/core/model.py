"""The values that all layers share: partitions, leaderships, assignments, brokers, and their states.

Standard library only: the same module runs in the daemon, in property tests and on Spark executors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import repeat
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)

NO_LEADER: Final = BrokerId(-1)
"""Leader of a partition without leader."""
LEADER_DURING_DELETE: Final = BrokerId(-2)
"""Leader in UpdateMetadata for a partition of a topic that is being deleted: brokers drop it from their metadata."""
EPOCH_DURING_DELETE: Final = -2
"""Leader epoch in StopReplica for a topic that is being deleted: the broker skips its epoch check."""
NO_EPOCH: Final = -1
INITIAL_LEADER_EPOCH: Final = 0
MAX_LEADER_EPOCH: Final = 2**31 - 1

OUR_IDS: Final = range(2_000_000_000, 2_000_000_100)
"""Node ids of controllerd instances: never a broker's id and never a replica."""


class TopicPartition(NamedTuple):
    """One partition of one topic. A named tuple, because it is hashed hundreds of thousands of times per event."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def state_path(self) -> str:
        """The path of its state znode, by which it is put in quarantine."""
        return f"/brokers/topics/{self.topic}/partitions/{self.partition}/state"

    @classmethod
    def all_of(cls, topic: str, partitions: Iterable[int]) -> "list[TopicPartition]":
        """Make partitions of one topic, at half the price of making them one by one."""
        new = tuple.__new__
        return [new(cls, pair) for pair in zip(repeat(topic), partitions)]


class Replica(NamedTuple):
    """One replica: a partition on a broker."""

    tp: TopicPartition
    broker: BrokerId


class LeaderRecoveryState(IntEnum):
    """Whether the leader was elected outside the ISR and has not finished recovering (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """The content of a partition state znode.

    ``partition_epoch`` is the data version of the znode; ``controller_epoch`` is the epoch of the controller that took
    the last leader decision. The ISR keeps its order through JSON and requests.
    """

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    partition_epoch: int
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED

    def at(self, partition_epoch: int) -> "LeaderAndIsr":
        """The same with another partition epoch; many times cheaper than ``_replace``."""
        leader, leader_epoch, isr, controller_epoch, _, recovery_state = self
        return LeaderAndIsr.of((leader, leader_epoch, isr, controller_epoch, partition_epoch, recovery_state))

    @classmethod
    def of(cls, fields: "tuple[BrokerId, int, tuple[BrokerId, ...], int, int, LeaderRecoveryState]") -> "LeaderAndIsr":
        """All fields in order; at half the price of the constructor, where 100,000 are made."""
        return tuple.__new__(cls, fields)


class ReplicaAssignment(NamedTuple):
    """The ordered replicas of a partition, and the replicas that are being added or removed (KIP-455)."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """True while replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class SecurityProtocol(IntEnum):
    """Security protocols of listeners with their codes on the wire."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Endpoint(NamedTuple):
    """One listener of a broker."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker; ``epoch`` is the czxid of its registration (KIP-380)."""

    id: BrokerId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint with this listener name, or None."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class PartitionState(Enum):
    """States of the partition state machine, under Kafka's names; ``code`` is Kafka's numeric value."""

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"

    __hash__ = object.__hash__  # members are compared by identity, and the hash of Enum is slow Python

    @property
    def code(self) -> int:
        """Kafka's number for this state."""
        return {"NewPartition": 0, "OnlinePartition": 1, "OfflinePartition": 2, "NonExistentPartition": 3}[self.value]


class ReplicaState(Enum):
    """States of the replica state machine, under Kafka's names."""

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"

    __hash__ = object.__hash__  # as for PartitionState


class Features(NamedTuple):
    """Which optional behaviour the lowest inter.broker.protocol.version of the cluster allows."""

    topic_ids: bool = True
    """Topics get ids (2.8-IV0) and requests carry them (2.8-IV1)."""
    leader_recovery: bool = True
    """Unclean elections mark the partition RECOVERING (3.2-IV0)."""
    alter_partition: bool = True
    """Brokers report ISR changes by AlterPartition (2.7-IV2)."""
    feature_versioning: bool = True
    """``/feature`` exists and is enabled (2.7-IV0)."""
    feature_format: int = 2
    """Format in which a new ``/feature`` is written: 2 from 3.3-IV0 on, 1 before."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic znode as it was read: the known fields, and the unknown ones that a rewrite must keep."""

    name: str
    assignments: Mapping[int, ReplicaAssignment]
    topic_id: str | None
    """Base64url id without padding, 22 characters; None when the znode has none."""
    znode_version: int
    """Data version of the znode: the condition of every write to it."""
    format_version: int = 3
    extra: Mapping[str, object] = field(default_factory=dict)
    """The unknown fields, which a rewrite keeps unchanged."""
    czxid: int = 0
    """Transaction that created the znode: a re-created topic has another one."""
