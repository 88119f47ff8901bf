"""Records of state machines for the audit log: the journal of the context, and the partitions that were refused.

Many partitions are the rows of few records, a slice of rows at a time, so that no record takes long to make.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import structlog

from controllerd.core.changes import (
    BulkChange,
    Change,
    LeadershipsSet,
    PartitionsAssigned,
    PartitionsMoved,
    ReplicasMoved,
    TopicKnown,
)
from controllerd.core.model import ReplicaAssignment, TopicPartition
from controllerd.ports.audit import AuditLog
from controllerd.record.columns import records_of
from controllerd.record.records import (
    MAX_ROWS,
    AssignmentRecord,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    RefusedRecord,
    ReplicaStateRecord,
)
from controllerd.slicer import sliced

log = structlog.get_logger(__name__)


def journal_records(changes: Iterable[Change | BulkChange]) -> Iterator[Record]:
    """Turn changes into records; replaying the records in order gives the same image as the changes did."""
    part = _Part()
    for change in changes:
        if not part.add(change):
            yield from part.records()
            part = _Part()
            part.add(change)
    yield from part.records()


def record_refusals(audit: AuditLog, what: str, refused: Iterable[tuple[TopicPartition, str]]) -> None:
    """Record partitions that were refused, each with its reason, and log how many there were; nothing for none."""
    rows = list(refused)
    for part in sliced(rows, MAX_ROWS):
        topics, partitions = [tp.topic for tp, _ in part], [tp.partition for tp, _ in part]
        audit.record(RefusedRecord(what, topics, partitions, [reason for _, reason in part]))
    if rows:
        log.warning("refused partitions", what=what, partitions=len(rows), first=str(rows[0][0]), reason=rows[0][1])


class _Part:
    """Single changes, and after them one bulk change of many partitions.

    A load comes as a topic, its partitions, the next topic and so on. The topics move to the front: a topic that is
    known anew has no earlier change that it could overtake.
    """

    def __init__(self) -> None:
        self._singles: list[Change] = []
        self._assigned: dict[str, PartitionsAssigned] = {}
        self._bulk: BulkChange | None = None

    def add(self, change: Change | BulkChange) -> bool:
        """Take the change, or return false and take nothing where it must come after the changes of this part."""
        if self._bulk is not None:
            return False
        if isinstance(change, PartitionsAssigned):
            self._assigned[change.topic] = change
        elif self._assigned and not (isinstance(change, TopicKnown) and change.topic not in self._assigned):
            return False
        elif isinstance(change, BulkChange):
            self._bulk = change
        else:
            self._singles.append(change)
        return True

    def records(self) -> Iterator[Record]:
        """The records of the changes that were taken."""
        yield from records_of(self._singles)
        yield from _assignments(self._assigned.values())
        if self._bulk is not None:
            yield from _BUILDERS[type(self._bulk)](self._bulk)


def _assignments(changes: Iterable[PartitionsAssigned]) -> Iterator[Record]:
    rows = (
        (change.topic, partition, assignment)
        for change in changes
        for partition, assignment in change.assignments.items()
    )
    while part := list(islice(rows, MAX_ROWS)):
        topics, partitions, assignments = zip(*part, strict=True)
        yield _assignment_record(topics, partitions, assignments)


def _assignment_record(
    topics: Sequence[str], partitions: Sequence[int], assignments: Sequence[ReplicaAssignment]
) -> Record:
    replicas, adding, removing = zip(*assignments, strict=True)
    lists = ([list(brokers) for brokers in column] for column in (replicas, adding, removing))
    return AssignmentRecord(list(topics), list(partitions), *lists)


def _leaderships(change: LeadershipsSet) -> Iterator[Record]:
    slices = zip(sliced(change.partitions, MAX_ROWS), sliced(change.leaderships, MAX_ROWS), strict=True)
    for part, states in slices:
        topics, partitions = zip(*part, strict=True)
        leaders, leader_epochs, isrs, controller_epochs, partition_epochs, recovery_states = zip(*states, strict=True)
        yield LeadershipRecord(
            list(topics),
            list(partitions),
            list(leaders),
            list(leader_epochs),
            [list(isr) for isr in isrs],
            list(controller_epochs),
            list(partition_epochs),
            [int(state) for state in recovery_states],
        )


def _partition_moves(change: PartitionsMoved) -> Iterator[Record]:
    for part in sliced(change.partitions, MAX_ROWS):
        topics, partitions = zip(*part, strict=True)
        before, after = [change.before.value] * len(part), [change.after.value] * len(part)
        yield PartitionStateRecord(list(topics), list(partitions), before, after)


def _replica_moves(change: ReplicasMoved) -> Iterator[Record]:
    for part in sliced(change.partitions, MAX_ROWS):
        topics, partitions = zip(*part, strict=True)
        brokers: list[int] = [change.broker] * len(part)
        before, after = [change.before.value] * len(part), [change.after.value] * len(part)
        yield ReplicaStateRecord(list(topics), list(partitions), brokers, before, after)


_BUILDERS: Final[Mapping[type[BulkChange], Callable[[Any], Iterator[Record]]]] = {
    PartitionsAssigned: lambda change: _assignments([change]),
    LeadershipsSet: _leaderships,
    PartitionsMoved: _partition_moves,
    ReplicasMoved: _replica_moves,
}
