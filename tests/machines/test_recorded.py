"""Changes of many partitions become columns of few records with the same content as that many single changes."""

from collections.abc import Iterable

import pytest

from controllerd.core.changes import (
    BulkChange,
    Change,
    LeadershipSet,
    LeadershipsSet,
    PartitionMoved,
    PartitionsAssigned,
    PartitionsMoved,
    ReplicasMoved,
    TopicForgotten,
    TopicKnown,
)
from controllerd.core.model import (
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)
from controllerd.machines.recorded import journal_records
from controllerd.record.columns import records_of
from controllerd.record.records import MAX_ROWS, AssignmentRecord, LeadershipRecord, Record, ReplicaStateRecord

ONE = BrokerId(1)
PARTITIONS = TopicPartition.all_of("t", range(3))
STATES = [LeaderAndIsr(ONE, epoch, (ONE,), 1, epoch) for epoch in range(3)]
NEW, ONLINE = PartitionState.NEW, PartitionState.ONLINE


def kinds(records: Iterable[Record]) -> list[str]:
    return [record.kind for record in records]


@pytest.mark.parametrize(
    ("many", "single"),
    [
        (LeadershipsSet(PARTITIONS, STATES), [LeadershipSet(tp, s) for tp, s in zip(PARTITIONS, STATES, strict=True)]),
        (PartitionsMoved(PARTITIONS, NEW, ONLINE), [PartitionMoved(tp, NEW, ONLINE) for tp in PARTITIONS]),
    ],
)
def test_a_change_of_many_is_recorded_as_that_many_changes(many: BulkChange, single: list[Change]) -> None:
    assert list(journal_records([many])) == records_of(single)


def test_moved_replicas_are_the_rows_of_one_record() -> None:
    (record,) = journal_records([ReplicasMoved(ONE, PARTITIONS, ReplicaState.NEW, ReplicaState.ONLINE)])

    assert isinstance(record, ReplicaStateRecord)
    assert list(zip(record.topics, record.partitions, strict=True)) == [(tp.topic, tp.partition) for tp in PARTITIONS]
    assert set(record.brokers) == {ONE}
    assert {*record.before, *record.after} == {ReplicaState.NEW.value, ReplicaState.ONLINE.value}


def test_a_load_of_many_topics_is_one_record_of_topics_and_one_of_assignments() -> None:
    load: list[Change | BulkChange] = []
    for name in ("a", "b"):
        load += [TopicKnown(name, None, 0), PartitionsAssigned(name, {0: ReplicaAssignment((ONE,))})]

    records = list(journal_records(load))

    assert kinds(records) == ["topics", "assignment"]
    assert isinstance(records[1], AssignmentRecord)
    assert records[1].topics == ["a", "b"]


def test_a_topic_that_is_read_again_is_recorded_after_its_first_assignments() -> None:
    assigned = PartitionsAssigned("a", {0: ReplicaAssignment((ONE,))})

    records = journal_records([TopicKnown("a", None, 0), assigned, TopicKnown("a", None, 1)])

    assert kinds(records) == ["topics", "assignment", "topics"]


def test_assignments_are_not_recorded_before_earlier_changes() -> None:
    assigned = PartitionsAssigned("a", {0: ReplicaAssignment((ONE,))})

    records = journal_records([TopicForgotten("a"), TopicKnown("a", None, 0), assigned, TopicForgotten("b")])

    assert kinds(records) == ["topics_forgotten", "topics", "assignment", "topics_forgotten"]


def test_no_record_has_more_rows_than_allowed() -> None:
    partitions = TopicPartition.all_of("t", range(MAX_ROWS + 1))

    records = list(journal_records([LeadershipsSet(partitions, [STATES[0]] * len(partitions))]))

    assert [len(record.topics) for record in records if isinstance(record, LeadershipRecord)] == [MAX_ROWS, 1]


def test_an_empty_journal_has_no_records() -> None:
    assert list(journal_records([])) == []
