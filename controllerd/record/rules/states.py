"""Invariants of the state machines, of the snapshots and of the log itself. Pure.

The tables are independent of those in ``core.transitions``, so that a mistake there is not repeated here.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final

from controllerd.record.digest import DIGEST_KINDS, FoldDigest
from controllerd.record.records import (
    DigestRecord,
    EventEnd,
    GapRecord,
    PartitionStateRecord,
    ReplicaStateRecord,
    SnapshotBegin,
    SnapshotEnd,
)
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule

_NO_PARTITION: Final = "NonExistentPartition"
_NO_REPLICA: Final = "NonExistentReplica"
_PARTITION_TRANSITIONS: Final[Mapping[str, frozenset[str]]] = {
    _NO_PARTITION: frozenset({"NewPartition"}),
    "NewPartition": frozenset({"OnlinePartition", "OfflinePartition"}),
    "OnlinePartition": frozenset({"OnlinePartition", "OfflinePartition"}),
    "OfflinePartition": frozenset({"OnlinePartition", "OfflinePartition", _NO_PARTITION}),
}
_REPLICA_TRANSITIONS: Final[Mapping[str, frozenset[str]]] = {
    _NO_REPLICA: frozenset({"NewReplica"}),
    "NewReplica": frozenset({"OnlineReplica", "OfflineReplica"}),
    "OnlineReplica": frozenset({"OnlineReplica", "OfflineReplica"}),
    "OfflineReplica": frozenset(
        {"OnlineReplica", "OfflineReplica", "ReplicaDeletionStarted", "ReplicaDeletionIneligible"}
    ),
    "ReplicaDeletionStarted": frozenset({"ReplicaDeletionSuccessful", "ReplicaDeletionIneligible"}),
    "ReplicaDeletionSuccessful": frozenset({_NO_REPLICA}),
    "ReplicaDeletionIneligible": frozenset({"OnlineReplica", "OfflineReplica"}),
}
# The machines set these states directly at their start: they are the states found, and no transitions.
_FIRST_PARTITION_STATES: Final = frozenset({"NewPartition", "OnlinePartition", "OfflinePartition"})
_FIRST_REPLICA_STATES: Final = frozenset({"OnlineReplica", "ReplicaDeletionIneligible"})


class _TransitionRule(Rule):
    """Compares transitions with a table. Until the event of a snapshot ends, first states are no transitions."""

    kinds = frozenset({SnapshotBegin, EventEnd, PartitionStateRecord, ReplicaStateRecord})

    def __init__(self) -> None:
        self._starting = False

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, SnapshotBegin):
            self._starting = True
        elif isinstance(record, EventEnd):
            self._starting = False
        for what, before, after in self.transitions(checked):
            if not self.is_legal(before, after):
                yield f"{what} changed from {before} to {after}"

    @abstractmethod
    def transitions(self, checked: CheckedRecord) -> Iterator[tuple[str, str, str]]:
        """The transitions: what changed, and its state before and after."""

    @abstractmethod
    def is_legal(self, before: str, after: str) -> bool:
        """Whether the table allows the transition."""


class ReplicaTransitionsAreLegal(_TransitionRule):
    """The replica state machine has seven states."""

    id = "I-18"
    title = "replicas change as their state machine allows"
    severity = "error"
    question = "What led to this transition, and is the replica in the state that the controller records?"

    def transitions(self, checked: CheckedRecord) -> Iterator[tuple[str, str, str]]:
        """The rows of a record of replica states."""
        if isinstance(checked.record, ReplicaStateRecord):
            record = checked.record
            columns = (record.topics, record.partitions, record.brokers, record.before, record.after)
            for topic, number, broker, before, after in zip(*columns, strict=True):
                yield f"replica {broker} of {topic}-{number}", before, after

    def is_legal(self, before: str, after: str) -> bool:
        """Whether the table allows it, or it is a first state."""
        if self._starting and before == _NO_REPLICA and after in _FIRST_REPLICA_STATES:
            return True
        return after in _REPLICA_TRANSITIONS.get(before, ())


class PartitionTransitionsAreLegal(_TransitionRule):
    """The partition state machine has four states."""

    id = "I-19"
    title = "partitions change as their state machine allows"
    severity = "error"
    question = "What led to this transition, and is the partition served?"

    def transitions(self, checked: CheckedRecord) -> Iterator[tuple[str, str, str]]:
        """The rows of a record of partition states."""
        if isinstance(checked.record, PartitionStateRecord):
            record = checked.record
            columns = (record.topics, record.partitions, record.before, record.after)
            for topic, number, before, after in zip(*columns, strict=True):
                yield f"partition {topic}-{number}", before, after

    def is_legal(self, before: str, after: str) -> bool:
        """Whether the table allows it, or it is a first state."""
        if self._starting and before == _NO_PARTITION and after in _FIRST_PARTITION_STATES:
            return True
        return after in _PARTITION_TRANSITIONS.get(before, ())


class SnapshotsAreComplete(Rule):
    """A replay rebuilds the state that the controller had."""

    id = "I-30"
    title = "at the end of a snapshot the replay has as many brokers, topics and partitions as the controller"
    severity = "error"
    question = "What did the controller load that it did not record?"
    kinds = frozenset({SnapshotEnd})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        if not isinstance(checked.record, SnapshotEnd):
            return
        state, end = checked.state, checked.record
        rebuilt = (len(state.brokers), len(state.topics), sum(len(topic.partitions) for topic in state.topics.values()))
        said = (end.brokers, end.topics, end.partitions)
        if rebuilt != said:
            yield f"the replay has {rebuilt} (brokers, topics, partitions), the controller had {said}"


class DigestsAgree(Rule):
    """Proves that the folded state at any moment is the state that the controller had."""

    id = "I-30"
    title = "the digest of the replay is the controller's own"
    severity = "error"
    question = "Which change of the controller's state is not in the log, or in another order?"
    kinds = DIGEST_KINDS | {DigestRecord, SnapshotBegin}
    checks_snapshot_rows = True

    def __init__(self) -> None:
        self._digest = FoldDigest()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record, state = checked.record, checked.state
        if not isinstance(record, DigestRecord):
            self._digest.add(record)
        elif state.is_whole and (found := self._digest.of(state)) != record.digest:
            yield f"the digest of the replay is {found}, the controller's {record.digest}"


class LogIsWhole(Rule):
    """Losses are declared, and time does not go back. The reader of the log verifies the hash chain."""

    id = "I-40"
    title = "numbers have no undeclared gap and the monotonic clock never goes back"
    severity = "warning"
    question = "Which part of the log is missing, and was it lost, pruned or removed?"

    def __init__(self) -> None:
        self._seq = 0
        self._mono_ns: int | None = None

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        envelope, record = checked.envelope, checked.record
        expected, last_mono_ns = self._seq + 1, self._mono_ns
        is_first = last_mono_ns is None
        self._seq, self._mono_ns = envelope.seq, envelope.mono_ns
        if isinstance(record, GapRecord) and (record.first_seq, record.last_seq) == (expected, envelope.seq - 1):
            expected = envelope.seq
        if envelope.seq != expected and not is_first:
            yield f"seq {envelope.seq} where {expected} was expected"
        if last_mono_ns is not None and envelope.mono_ns < last_mono_ns:
            yield f"the monotonic clock went back by {last_mono_ns - envelope.mono_ns} ns"
