"""The cluster as the controller knew it after a record: the state that the fold builds. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields

from controllerd.core.model import (
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)
from controllerd.record.records import BrokerRow


@dataclass(slots=True)
class FoldedPartition:
    """One partition. ``leadership`` is None while it has no state znode."""

    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None = None
    state: PartitionState = PartitionState.NON_EXISTENT
    replica_states: dict[BrokerId, ReplicaState] = field(default_factory=dict)


@dataclass(slots=True)
class FoldedTopic:
    """One topic."""

    topic_id: str | None
    znode_version: int
    partitions: dict[int, FoldedPartition] = field(default_factory=dict)


@dataclass(slots=True)
class FoldedDeletion:
    """The requested deletion of one topic. ``halted`` is the reason why it waits; None if it does not."""

    is_started: bool = False
    halted: str | None = None


@dataclass(slots=True)
class FoldedCluster:
    """The cluster itself: everything that a snapshot has."""

    brokers: dict[BrokerId, BrokerRow] = field(default_factory=dict)
    shutting_down: set[BrokerId] = field(default_factory=set)
    topics: dict[str, FoldedTopic] = field(default_factory=dict)
    offline_dirs: dict[BrokerId, set[TopicPartition]] = field(default_factory=dict)
    quarantine: dict[str, str] = field(default_factory=dict)
    deletions: dict[str, FoldedDeletion] = field(default_factory=dict)
    pending_deletions: dict[BrokerId, dict[TopicPartition, str | None]] = field(default_factory=dict)
    """The pending replica deletions of each broker, with the ids of the topics."""

    @property
    def live(self) -> set[BrokerId]:
        """The brokers that may become leaders and ISR members."""
        return self.brokers.keys() - self.shutting_down

    def partitions(self) -> Iterator[tuple[TopicPartition, FoldedPartition]]:
        """Every partition."""
        for name, topic in self.topics.items():
            for number, partition in topic.partitions.items():
                yield TopicPartition(name, number), partition

    def partition(self, tp: TopicPartition) -> FoldedPartition | None:
        """One partition, None if it is not known."""
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def assignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        """The assignment of every partition."""
        return {tp: partition.assignment for tp, partition in self.partitions()}

    def leaderships(self) -> dict[TopicPartition, LeaderAndIsr]:
        """The leadership of every partition that has one."""
        return {tp: partition.leadership for tp, partition in self.partitions() if partition.leadership is not None}

    def partition_states(self) -> dict[TopicPartition, PartitionState]:
        """The state of every partition."""
        return {tp: partition.state for tp, partition in self.partitions()}

    def replica_states(self) -> dict[Replica, ReplicaState]:
        """The state of every replica that has one."""
        return {
            Replica(tp, broker): state
            for tp, partition in self.partitions()
            for broker, state in partition.replica_states.items()
        }

    def topic_ids(self) -> dict[str, str | None]:
        """The id of every topic; None for a topic without an id."""
        return {name: topic.topic_id for name, topic in self.topics.items()}


@dataclass(slots=True)
class ClusterState(FoldedCluster):
    """The cluster as the controller knew it after a record; ``seq`` and ``ts_ms`` are that record's."""

    seq: int = 0
    ts_ms: int = 0
    session: str = ""
    session_id: int = 0
    term: str = ""
    """The latest change of the role; ``holder`` is the controller that held it then."""
    holder: str = ""
    controller_epoch: int = 0
    """The controller epoch of this node's term; 0 while it is not the active controller."""
    epoch_zk_version: int = 0
    is_whole: bool = False
    """Whether the state began with a snapshot and no record was lost since. Periodic snapshots change nothing then."""

    def clear(self) -> None:
        """Replace the cluster by an empty one; the role and the session stay. A copy of the state keeps its cluster."""
        empty = FoldedCluster()
        for part in fields(empty):
            setattr(self, part.name, getattr(empty, part.name))


def broker_ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    """Broker ids as the model has them, from a column of a record."""
    return tuple(map(BrokerId, numbers))
