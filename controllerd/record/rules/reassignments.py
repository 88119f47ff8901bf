"""Invariants of reassignments: the replicas that a partition may gain and lose at each step. Pure.

The expected lists are computed here from the previous assignment, independently of ``core``, so that a mistake there is
not repeated here.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, ReplicaAssignment, TopicPartition
from controllerd.record.records import (
    AlarmRecord,
    AssignmentRecord,
    EventBegin,
    EventEnd,
    ReassignmentRecord,
    ZkWriteRecord,
)
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule

_TOPIC: Final = "/brokers/topics/"


def _rows(record: AssignmentRecord) -> Iterator[tuple[TopicPartition, ReplicaAssignment]]:
    columns = (record.topics, record.partitions, record.replicas, record.adding, record.removing)
    for topic, number, *lists in zip(*columns, strict=True):
        replicas, adding, removing = (tuple(map(BrokerId, brokers)) for brokers in lists)
        yield TopicPartition(topic, number), ReplicaAssignment(replicas, adding, removing)


class ReassignmentsKeepTheirSteps(Rule):
    """KAFKA-9672, KAFKA-1170: a replica is added before it serves, and leaves the ISR before it is removed."""

    id = "I-16"
    title = "a reassignment adds; an override or cancellation drops the added replicas, the completion the removed ones"
    severity = "critical"
    question = "Was a replica removed before its successor was in sync?"
    kinds = frozenset({EventBegin, ReassignmentRecord, AssignmentRecord})

    def __init__(self) -> None:
        self._steps: defaultdict[TopicPartition, set[str]] = defaultdict(set)
        self._seen: set[tuple[TopicPartition, ReplicaAssignment]] = set()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, EventBegin):
            self._steps.clear()
            self._seen.clear()
        elif isinstance(record, ReassignmentRecord):
            for topic, number in zip(record.topics, record.partitions, strict=True):
                self._steps[TopicPartition(topic, number)].add(record.step)
        elif isinstance(record, AssignmentRecord) and self._steps:
            latest: dict[TopicPartition, ReplicaAssignment] = {}
            for tp, after in _rows(record):
                known = checked.state.partition(tp)
                if known is not None and tp in self._steps:
                    isr = known.leadership.isr if known.leadership is not None else None
                    yield from self._judge(tp, latest.get(tp, known.assignment), after, isr)
                latest[tp] = after

    def _judge(
        self, tp: TopicPartition, before: ReplicaAssignment, after: ReplicaAssignment, isr: Sequence[int] | None
    ) -> Iterator[str | Evidence]:
        if before == after:
            return
        steps, may_end = "/".join(sorted(self._steps[tp])), "completing" in self._steps[tp]
        is_back = (tp, after) in self._seen  # the reassignment was begun in this event and is undone
        self._seen.add((tp, before))
        if is_back:
            return
        came = set(after.replicas) - set(before.replicas)
        went = set(before.replicas) - set(after.replicas)
        if stray := came - set(after.adding):
            yield f"{tp} ({steps}): brokers {sorted(stray)} became replicas without being added"
        if stray := went - set(before.adding) - set(before.removing if may_end else ()):
            yield f"{tp} ({steps}): brokers {sorted(stray)} lost their replicas"
        if went & set(before.removing) and isr is not None:
            late = set(before.replicas) - set(before.removing) - set(isr)
            if late:
                yield f"{tp} was completed while {sorted(late)} were not in the ISR {list(isr)}"


class OnlyReassignedPartitionsChange(Rule):
    """A topic znode has all partitions of a topic. A write for one partition must not change another."""

    id = "I-17"
    title = "a write of a topic znode changes only the assignments of partitions that are being reassigned"
    severity = "error"
    question = "Who requested the other change in this topic znode, and does the operator want it?"
    kinds = frozenset({EventBegin, EventEnd, ReassignmentRecord, AssignmentRecord, AlarmRecord, ZkWriteRecord})

    def __init__(self) -> None:
        self._explained: set[TopicPartition] = set()
        self._foreign: list[str] = []
        self._changed: set[TopicPartition] = set()
        self._written: set[str] = set()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, EventBegin):
            for collection in (self._explained, self._foreign, self._changed, self._written):
                collection.clear()
        elif isinstance(record, ReassignmentRecord):
            self._explained.update(map(TopicPartition, record.topics, record.partitions))
        elif isinstance(record, AlarmRecord):
            if record.what == "assignment changed by somebody else":
                self._foreign.append(record.detail)
        elif isinstance(record, ZkWriteRecord):
            self._add_write(record)
        elif isinstance(record, AssignmentRecord):
            self._add_assignments(record, checked)
        else:  # the event has ended
            yield from self._judge()

    def _add_write(self, record: ZkWriteRecord) -> None:
        for operation, path, result in zip(record.operations, record.paths, record.results, strict=True):
            name = path.removeprefix(_TOPIC)
            if operation == "setData" and result == "ok" and name != path and "/" not in name:
                self._written.add(name)

    def _add_assignments(self, record: AssignmentRecord, checked: CheckedRecord) -> None:
        for tp, after in _rows(record):
            known = checked.state.partition(tp)
            if known is None or any(broker in OUR_IDS for broker in known.assignment.replicas):
                continue  # a new partition, or a replica on controllerd that is replaced
            if known.assignment != after:
                self._changed.add(tp)

    def _judge(self) -> Iterator[str | Evidence]:
        for tp in sorted(self._changed - self._explained):
            if tp.topic in self._written and not any(said.startswith(f"{tp}: ") for said in self._foreign):
                yield f"the assignment of {tp} changed with a write that was not about it"
