"""Every mutation of the context as a value, which the audit log records and a replay carries out again."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controllerd.core.model import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)


class BrokerLive(NamedTuple):
    """A broker entered the live set, or its endpoints changed."""

    broker: Broker


class BrokerGone(NamedTuple):
    """A broker left the live set."""

    broker: BrokerId


class BrokerShuttingDown(NamedTuple):
    """A broker asked for controlled shutdown."""

    broker: BrokerId


class TopicKnown(NamedTuple):
    """A topic, its id or its znode version became known."""

    topic: str
    topic_id: str | None
    znode_version: int


class TopicForgotten(NamedTuple):
    """A topic and everything known of it left the context."""

    topic: str


class AssignmentSet(NamedTuple):
    """The assignment of a partition as its topic znode has it."""

    tp: TopicPartition
    assignment: ReplicaAssignment


class LeadershipSet(NamedTuple):
    """The leadership of a partition as its state znode has it."""

    tp: TopicPartition
    leadership: LeaderAndIsr


class PartitionMoved(NamedTuple):
    """A transition of the partition state machine."""

    tp: TopicPartition
    before: PartitionState
    after: PartitionState


class PartitionsAssigned(NamedTuple):
    """All partitions of a topic that was not known, as its topic znode has them."""

    topic: str
    assignments: Mapping[int, ReplicaAssignment]


class LeadershipsSet(NamedTuple):
    """The leaderships of many partitions, each at most once, in two columns."""

    partitions: Sequence[TopicPartition]
    leaderships: Sequence[LeaderAndIsr]


class PartitionsMoved(NamedTuple):
    """The same transition of many partitions."""

    partitions: Sequence[TopicPartition]
    before: PartitionState
    after: PartitionState


class ReplicasMoved(NamedTuple):
    """The same transition of many replicas of one broker."""

    broker: BrokerId
    partitions: Sequence[TopicPartition]
    before: ReplicaState
    after: ReplicaState


class OfflineDirsSet(NamedTuple):
    """The partitions of a broker whose log directory failed."""

    broker: BrokerId
    partitions: frozenset[TopicPartition]


class ZnodeQuarantined(NamedTuple):
    """A znode was put in quarantine: it cannot be parsed, and nothing that depends on it is changed."""

    path: str
    reason: str


class ZnodeReleased(NamedTuple):
    """A znode left quarantine: it can be parsed again, or is gone."""

    path: str


class DeletionChanged(NamedTuple):
    """The deletion of a topic was ``queued``, ``started``, ``halted`` (with the reason) or ``resumed``."""

    topic: str
    what: str
    reason: str | None = None


class PendingDeletionsSet(NamedTuple):
    """All replicas that a broker must still delete, each with the id of its topic; empty: none."""

    broker: BrokerId
    pending: Mapping[TopicPartition, str | None]


Change = (
    BrokerLive
    | BrokerGone
    | BrokerShuttingDown
    | TopicKnown
    | TopicForgotten
    | AssignmentSet
    | LeadershipSet
    | PartitionMoved
    | OfflineDirsSet
    | ZnodeQuarantined
    | ZnodeReleased
    | DeletionChanged
    | PendingDeletionsSet
)

BulkChange = PartitionsAssigned | LeadershipsSet | PartitionsMoved | ReplicasMoved
"""Changes of many partitions at once: 100,000 single objects would take more time than the changes themselves."""
