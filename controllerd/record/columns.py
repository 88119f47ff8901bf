"""Turns changes of the controller's context into records: many changes of one kind become columns of one record.

Changes of different kinds usually alternate (a leadership, its transition, the next leadership ...), so grouping
neighbours alone would give a record per partition. Therefore each kind has one set of columns (a lane), as long as the
order of the changes of each single partition stays exact. Otherwise the lanes are recorded first and begin anew.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from controllerd.core.changes import (
    AssignmentSet,
    BrokerGone,
    BrokerLive,
    BrokerShuttingDown,
    Change,
    DeletionChanged,
    LeadershipSet,
    OfflineDirsSet,
    PartitionMoved,
    PendingDeletionsSet,
    TopicForgotten,
    TopicKnown,
    ZnodeQuarantined,
    ZnodeReleased,
)
from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.record.records import (
    MAX_ROWS,
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DeletionRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    Record,
    TopicsForgotten,
    TopicsRecord,
)

T = TypeVar("T")


def records_of(changes: Sequence[Change]) -> list[Record]:
    """The changes as records. Replaying the records in order gives the same state as the changes."""
    records: list[Record] = []
    lanes = _Lanes()
    for change in changes:
        if not lanes.add(change):
            records += lanes.records()
            lanes = _Lanes()
            lanes.add(change)
    return records + list(lanes.records())


class _Lanes:
    """Changes by type, in the order in which the types first appeared.

    A change may join its lane unless an earlier change of the same partition or topic is in a later lane. A failover
    has hundreds of thousands of changes, so a change costs only a few dictionary lookups.
    """

    def __init__(self) -> None:
        self._lanes: dict[type[Change], tuple[int, list[Change]]] = {}
        self._alone = False
        """Whether the lanes hold changes of a type in ``_ALONE``."""
        self._partitions: dict[TopicPartition, int] = {}
        """The lane of the latest change of each partition."""
        self._topics: dict[str, int] = {}
        """The lane of the latest change of each topic itself."""
        self._members: dict[str, int] = {}
        """The last lane with a change of any partition of each topic."""

    def add(self, change: Change) -> bool:
        """Add the change. False, without adding it, if it must come after all changes in the lanes."""
        kind = type(change)
        found = self._lanes.get(kind)
        if found is None:
            if self._lanes and (self._alone or kind in _ALONE):
                return False
            found = self._lanes[kind] = len(self._lanes), []
            self._alone = kind in _ALONE
        lane, rows = found
        if not (self._alone or self._keeps_order(change, lane)):
            return False
        rows.append(change)
        return True

    def _keeps_order(self, change: Any, lane: int) -> bool:
        """Whether the change may join the lane; if so, note it as the latest of its partition or topic."""
        if isinstance(change, TopicKnown):
            return self._keeps_topic_order(change.topic, lane)
        tp = change.tp
        topic = tp.topic
        if lane < self._partitions.get(tp, 0) or lane < self._topics.get(topic, 0):
            return False
        self._partitions[tp] = lane
        if lane > self._members.get(topic, 0):
            self._members[topic] = lane
        return True

    def _keeps_topic_order(self, topic: str, lane: int) -> bool:
        if lane < self._members.get(topic, 0):
            return False
        self._topics[topic] = lane
        return True

    def records(self) -> Iterator[Record]:
        """The added changes as records."""
        for kind, (_, changes) in self._lanes.items():
            for rows in _slices(changes):
                yield from _BUILDERS[kind](rows)


def _slices(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), MAX_ROWS):
        yield rows[start : start + MAX_ROWS]


def _brokers_live(rows: Sequence[BrokerLive]) -> Iterator[Record]:
    yield BrokersRecord(live=[_broker_row(row.broker) for row in rows])


def _broker_row(broker: Broker) -> BrokerRow:
    endpoints = [
        f"{endpoint.listener}={endpoint.security_protocol.name}://{endpoint.host}:{endpoint.port}"
        for endpoint in broker.endpoints
    ]
    return BrokerRow(broker.id, broker.epoch, endpoints, broker.rack)


def _brokers_gone(rows: Sequence[BrokerGone]) -> Iterator[Record]:
    yield BrokersRecord(gone=[row.broker for row in rows])


def _brokers_shutting_down(rows: Sequence[BrokerShuttingDown]) -> Iterator[Record]:
    yield BrokersRecord(shutting_down=[row.broker for row in rows])


def _topics(rows: Sequence[TopicKnown]) -> Iterator[Record]:
    yield TopicsRecord(
        [row.topic for row in rows],
        [row.topic_id for row in rows],
        [row.znode_version for row in rows],
    )


def _topics_forgotten(rows: Sequence[TopicForgotten]) -> Iterator[Record]:
    yield TopicsForgotten([row.topic for row in rows])


def _assignments(rows: Sequence[AssignmentSet]) -> Iterator[Record]:
    yield AssignmentRecord(
        [row.tp.topic for row in rows],
        [row.tp.partition for row in rows],
        [list(row.assignment.replicas) for row in rows],
        [list(row.assignment.adding) for row in rows],
        [list(row.assignment.removing) for row in rows],
    )


def _leaderships(rows: Sequence[LeadershipSet]) -> Iterator[Record]:
    states = [row.leadership for row in rows]
    yield LeadershipRecord(
        [row.tp.topic for row in rows],
        [row.tp.partition for row in rows],
        [state.leader for state in states],
        [state.leader_epoch for state in states],
        [list(state.isr) for state in states],
        [state.controller_epoch for state in states],
        [state.partition_epoch for state in states],
        [int(state.recovery_state) for state in states],
    )


def _partition_moves(rows: Sequence[PartitionMoved]) -> Iterator[Record]:
    yield PartitionStateRecord(
        [row.tp.topic for row in rows],
        [row.tp.partition for row in rows],
        [row.before.value for row in rows],
        [row.after.value for row in rows],
    )


def _offline_dirs(rows: Sequence[OfflineDirsSet]) -> Iterator[Record]:
    for row in rows:
        first, *rest = list(_slices(sorted(row.partitions))) or [()]
        yield _offline_record(row.broker, first, continues=False)
        for part in rest:
            yield _offline_record(row.broker, part, continues=True)


def _offline_record(broker: BrokerId, part: Sequence[TopicPartition], *, continues: bool) -> OfflineDirsRecord:
    return OfflineDirsRecord(broker, [tp.topic for tp in part], [tp.partition for tp in part], continues)


def _quarantined(rows: Sequence[ZnodeQuarantined]) -> Iterator[Record]:
    return (QuarantineRecord(row.path, row.reason) for row in rows)


def _released(rows: Sequence[ZnodeReleased]) -> Iterator[Record]:
    return (QuarantineRecord(row.path, None) for row in rows)


def _deletions(rows: Sequence[DeletionChanged]) -> Iterator[Record]:
    yield DeletionRecord([row.topic for row in rows], [row.what for row in rows], [row.reason for row in rows])


def _pending_deletions(rows: Sequence[PendingDeletionsSet]) -> Iterator[Record]:
    for row in rows:
        first, *rest = list(_slices(sorted(row.pending))) or [()]
        yield _pending_deletions_record(row, first, continues=False)
        for part in rest:
            yield _pending_deletions_record(row, part, continues=True)


def _pending_deletions_record(
    row: PendingDeletionsSet, part: Sequence[TopicPartition], *, continues: bool
) -> PendingDeletionsRecord:
    topics, partitions = [tp.topic for tp in part], [tp.partition for tp in part]
    return PendingDeletionsRecord(row.broker, topics, partitions, [row.pending[tp] for tp in part], continues)


_BUILDERS: Final[Mapping[type[Change], Callable[[Any], Iterator[Record]]]] = {
    BrokerLive: _brokers_live,
    BrokerGone: _brokers_gone,
    BrokerShuttingDown: _brokers_shutting_down,
    TopicKnown: _topics,
    TopicForgotten: _topics_forgotten,
    AssignmentSet: _assignments,
    LeadershipSet: _leaderships,
    PartitionMoved: _partition_moves,
    OfflineDirsSet: _offline_dirs,
    ZnodeQuarantined: _quarantined,
    ZnodeReleased: _released,
    DeletionChanged: _deletions,
    PendingDeletionsSet: _pending_deletions,
}

# Changes that concern no partition, or more than one, are barriers: no other change is moved across them.
_ALONE: Final = frozenset(
    {
        BrokerLive,
        BrokerGone,
        BrokerShuttingDown,
        TopicForgotten,
        OfflineDirsSet,
        ZnodeQuarantined,
        ZnodeReleased,
        DeletionChanged,
        PendingDeletionsSet,
    }
)
