"""The replicas that a changed assignment adds, cancels and forgets."""

from controllerd.core.context import ControllerContext
from controllerd.core.model import ReplicaAssignment, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.replica_states import ReplicaStates
from controllerd.machines.reassignment.assignment_writes import Move, loss_by
from tests.fakes.world import ids

UNDER_WAY = ReplicaAssignment(ids(2, 3, 1), ids(2, 3), ids(1))


def move(before: ReplicaAssignment, after: ReplicaAssignment) -> Move:
    return Move(record_of(before), before, after)


def record_of(assignment: ReplicaAssignment) -> PartitionRecord:
    return PartitionRecord(TopicPartition("t", 0), assignment, ReplicaStates.nothing())


def test_a_replica_that_was_only_being_added_is_cancelled_and_any_other_is_forgotten() -> None:
    changed = move(UNDER_WAY, ReplicaAssignment(ids(2), ids(2)))

    assert changed.dropped == ids(3, 1)
    assert changed.called_off == list(ids(3))
    assert changed.forgotten == list(ids(1))


def test_a_replica_that_is_already_being_added_is_not_new() -> None:
    changed = move(ReplicaAssignment(ids(1)), ReplicaAssignment(ids(2, 1, 4), ids(2)))

    assert changed.newcomers == list(ids(4))


def test_a_partition_that_never_had_a_leader_loses_no_isr_member() -> None:
    record = record_of(ReplicaAssignment(ids(1)))

    assert loss_by(ControllerContext(), record, ids(1), ReplicaAssignment(ids(2))) is None
