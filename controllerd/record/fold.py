"""Rebuilds the controller's picture of the cluster from the records of the audit log. Pure.

Each epoch opens with a snapshot and may have periodic ones, so a fold may begin at any ``SnapshotBegin``; records
before the first one that say nothing about a known topic leave no trace.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controllerd.core.model import (
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)
from controllerd.record.envelope import Envelope
from controllerd.record.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DeletionRecord,
    GapRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    Record,
    ReplicaStateRecord,
    SessionRecord,
    SnapshotBegin,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
)

TERM_BEGINS: Final = frozenset({"elected", "renewed"})
SESSION_ENDS: Final = frozenset({"lost", "closed"})


@dataclass(slots=True)
class PartitionPicture:
    """One partition. ``leadership`` is None while it has no state znode."""

    assignment: ReplicaAssignment
    leadership: LeaderAndIsr | None = None
    state: PartitionState = PartitionState.NON_EXISTENT
    replica_states: dict[BrokerId, ReplicaState] = field(default_factory=dict)


@dataclass(slots=True)
class TopicPicture:
    """One topic."""

    topic_id: str | None
    znode_version: int
    partitions: dict[int, PartitionPicture] = field(default_factory=dict)


@dataclass(slots=True)
class DeletionPicture:
    """The deletion of one topic that was asked for; ``halted`` says why it has to wait, None if it has not."""

    is_started: bool = False
    halted: str | None = None


@dataclass(slots=True)
class ClusterState:
    """The cluster as the controller knew it after a record; ``seq`` and ``ts_ms`` are that record's."""

    seq: int = 0
    ts_ms: int = 0
    session: str = ""
    session_id: int = 0
    term: str = ""
    """The latest change of the role, and ``holder`` who held it then."""
    holder: str = ""
    controller_epoch: int = 0
    """Epoch of our term, 0 while we are not the active controller."""
    epoch_zk_version: int = 0
    is_whole: bool = False
    """Whether a snapshot began it and no record was lost since: a periodic snapshot has nothing to add then."""
    brokers: dict[BrokerId, BrokerRow] = field(default_factory=dict)
    shutting_down: set[BrokerId] = field(default_factory=set)
    topics: dict[str, TopicPicture] = field(default_factory=dict)
    offline_dirs: dict[BrokerId, set[TopicPartition]] = field(default_factory=dict)
    quarantine: dict[str, str] = field(default_factory=dict)
    deletions: dict[str, DeletionPicture] = field(default_factory=dict)
    debts: dict[BrokerId, dict[TopicPartition, str | None]] = field(default_factory=dict)
    """Replicas that brokers must delete when they are back, with the ids of their topics."""

    @property
    def live(self) -> set[BrokerId]:
        """The brokers that may become leaders and ISR members."""
        return self.brokers.keys() - self.shutting_down

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionPicture]]:
        """Every partition."""
        for name, topic in self.topics.items():
            for number, partition in topic.partitions.items():
                yield TopicPartition(name, number), partition

    def partition(self, tp: TopicPartition) -> PartitionPicture | None:
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
        """The id of every topic, None for a topic without."""
        return {name: topic.topic_id for name, topic in self.topics.items()}

    def clear(self) -> None:
        """Forget the cluster; the role and the session stay."""
        for collection in (
            self.brokers,
            self.shutting_down,
            self.topics,
            self.offline_dirs,
            self.quarantine,
            self.deletions,
            self.debts,
        ):
            collection.clear()


def apply(state: ClusterState, envelope: Envelope, record: Record) -> None:
    """Let a record change the state. Records that change nothing only move ``seq`` and ``ts_ms``."""
    state.seq, state.ts_ms = envelope.seq, envelope.ts_ms
    fold = _FOLDS.get(type(record))
    if fold is not None:
        fold(state, record)


def _session(state: ClusterState, record: SessionRecord) -> None:
    state.session, state.session_id = record.state, record.session_id
    if record.state in SESSION_ENDS:
        state.controller_epoch = 0


def _term(state: ClusterState, record: TermRecord) -> None:
    state.term, state.holder = record.change, record.holder
    # "renewed" comes twice: with the old epoch when its term ends, with the new one when that is won.
    is_end = record.change not in TERM_BEGINS or record.controller_epoch == state.controller_epoch
    state.controller_epoch = 0 if is_end else record.controller_epoch
    state.epoch_zk_version = record.epoch_zk_version


def _snapshot_begin(state: ClusterState, record: SnapshotBegin) -> None:
    if not (record.periodic and state.is_whole):
        state.clear()
        state.is_whole = True
    state.controller_epoch = record.controller_epoch
    if record.periodic:
        state.epoch_zk_version = record.epoch_zk_version


def _gap(state: ClusterState, _record: GapRecord) -> None:
    state.is_whole = False


def _brokers(state: ClusterState, record: BrokersRecord) -> None:
    for gone in record.gone:
        broker = BrokerId(gone)
        state.brokers.pop(broker, None)
        state.shutting_down.discard(broker)
        state.offline_dirs.pop(broker, None)
    state.brokers.update((BrokerId(row.id), row) for row in record.live)
    state.shutting_down.update(map(BrokerId, record.shutting_down))


def _topics(state: ClusterState, record: TopicsRecord) -> None:
    for name, topic_id, version in zip(record.names, record.ids, record.znode_versions, strict=True):
        topic = state.topics.get(name)
        if topic is None:
            state.topics[name] = TopicPicture(topic_id, version)
        else:
            topic.topic_id, topic.znode_version = topic_id, version


def _topics_forgotten(state: ClusterState, record: TopicsForgotten) -> None:
    gone: set[TopicPartition] = set()
    for name in record.names:
        topic = state.topics.pop(name, None)
        state.deletions.pop(name, None)
        gone.update(TopicPartition(name, number) for number in (topic.partitions if topic is not None else ()))
    for partitions in state.offline_dirs.values():
        partitions.difference_update(gone)


def _assignment(state: ClusterState, record: AssignmentRecord) -> None:
    columns = (record.topics, record.partitions, record.replicas, record.adding, record.removing)
    for name, number, replicas, adding, removing in zip(*columns, strict=True):
        topic = state.topics.get(name)
        if topic is None:
            continue
        assignment = ReplicaAssignment(_ids(replicas), _ids(adding), _ids(removing))
        topic.partitions.setdefault(number, PartitionPicture(assignment)).assignment = assignment


def _leadership(state: ClusterState, record: LeadershipRecord) -> None:
    for tp, leadership in leaderships_of(record):
        partition = state.partition(tp)
        if partition is not None:
            partition.leadership = leadership


def leaderships_of(record: LeadershipRecord) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    """The rows of the record as values."""
    for index, (topic, number) in enumerate(zip(record.topics, record.partitions, strict=True)):
        yield TopicPartition(topic, number), leadership_of(record, index)


def leadership_of(record: LeadershipRecord, index: int) -> LeaderAndIsr:
    """One row of the record as a value."""
    return LeaderAndIsr(
        BrokerId(record.leaders[index]),
        record.leader_epochs[index],
        _ids(record.isrs[index]),
        record.controller_epochs[index],
        record.partition_epochs[index],
        LeaderRecoveryState(record.recovery_states[index]),
    )


def _partition_state(state: ClusterState, record: PartitionStateRecord) -> None:
    for name, number, after in zip(record.topics, record.partitions, record.after, strict=True):
        partition = state.partition(TopicPartition(name, number))
        if partition is not None:
            partition.state = PartitionState(after)


def _replica_state(state: ClusterState, record: ReplicaStateRecord) -> None:
    columns = (record.topics, record.partitions, record.brokers, record.after)
    for name, number, broker, after in zip(*columns, strict=True):
        partition = state.partition(TopicPartition(name, number))
        if partition is None:
            continue
        if ReplicaState(after) is ReplicaState.NON_EXISTENT:
            partition.replica_states.pop(BrokerId(broker), None)
        else:
            partition.replica_states[BrokerId(broker)] = ReplicaState(after)


def _offline_dirs(state: ClusterState, record: OfflineDirsRecord) -> None:
    rows = {TopicPartition(topic, number) for topic, number in zip(record.topics, record.partitions, strict=True)}
    before = state.offline_dirs.get(BrokerId(record.broker), set()) if record.continues else set()
    state.offline_dirs[BrokerId(record.broker)] = before | rows


def _quarantine(state: ClusterState, record: QuarantineRecord) -> None:
    if record.reason is None:
        state.quarantine.pop(record.path, None)
    else:
        state.quarantine[record.path] = record.reason


def _deletion(state: ClusterState, record: DeletionRecord) -> None:
    for name, change, reason in zip(record.topics, record.changes, record.reasons, strict=True):
        picture = state.deletions.setdefault(name, DeletionPicture())
        picture.is_started = picture.is_started or change == "started"
        if change in ("halted", "resumed"):
            picture.halted = reason


def _debt(state: ClusterState, record: PendingDeletionsRecord) -> None:
    broker = BrokerId(record.broker)
    rows = zip(record.topics, record.partitions, record.topic_ids, strict=True)
    owed = state.debts.pop(broker, {}) if record.continues else {}
    owed.update((TopicPartition(name, number), topic_id) for name, number, topic_id in rows)
    if owed:
        state.debts[broker] = owed
    else:
        state.debts.pop(broker, None)


def _ids(brokers: list[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


_FOLDS: Final[Mapping[type[Record], Callable[[ClusterState, Any], None]]] = {
    SessionRecord: _session,
    TermRecord: _term,
    SnapshotBegin: _snapshot_begin,
    BrokersRecord: _brokers,
    TopicsRecord: _topics,
    TopicsForgotten: _topics_forgotten,
    AssignmentRecord: _assignment,
    LeadershipRecord: _leadership,
    PartitionStateRecord: _partition_state,
    ReplicaStateRecord: _replica_state,
    OfflineDirsRecord: _offline_dirs,
    QuarantineRecord: _quarantine,
    DeletionRecord: _deletion,
    PendingDeletionsRecord: _debt,
    GapRecord: _gap,
}


# -- comparing with ZooKeeper ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observed:
    """What the caller read from ZooKeeper; a partition without state znode is absent from ``leaderships``."""

    topic_ids: Mapping[str, str | None]
    assignments: Mapping[TopicPartition, ReplicaAssignment]
    leaderships: Mapping[TopicPartition, LeaderAndIsr]


def diff_with_zookeeper(state: ClusterState, observed: Observed) -> list[str]:
    """The differences between the folded state and ZooKeeper as sentences, in a stable order; empty when equal."""
    return [
        *_differences("topic", "id", state.topic_ids(), observed.topic_ids),
        *_differences("partition", "assignment", state.assignments(), observed.assignments),
        *_differences("partition", "leadership", state.leaderships(), observed.leaderships),
    ]


def _differences(noun: str, what: str, folded: Mapping[Any, Any], found: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted(folded.keys() | found.keys()):
        if key not in found:
            yield f"{noun} {key} has the {what} {folded[key]} in the log and none in ZooKeeper"
        elif key not in folded:
            yield f"{noun} {key} has the {what} {found[key]} in ZooKeeper and none in the log"
        elif folded[key] != found[key]:
            yield f"{noun} {key} has the {what} {folded[key]} in the log and {found[key]} in ZooKeeper"
