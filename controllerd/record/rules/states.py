"""Invariants of the state machines, of the snapshots and of the log itself. Pure.

The tables are written down independently of the state machines' own, so that a mistake is not shared.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final

from controllerd.record.digest import FoldDigest
from controllerd.record.records import (
    AssignmentRecord,
    DigestRecord,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    PartitionStateRecord,
    ReplicaStateRecord,
    SnapshotBegin,
    SnapshotEnd,
    TopicsForgotten,
    TopicsRecord,
)
from controllerd.record.rules.base import Entry, Evidence, Rule

_NO_PARTITION: Final = "NonExistentPartition"
_NO_REPLICA: Final = "NonExistentReplica"
_PARTITION_MOVES: Final[Mapping[str, frozenset[str]]] = {
    _NO_PARTITION: frozenset({"NewPartition"}),
    "NewPartition": frozenset({"OnlinePartition", "OfflinePartition"}),
    "OnlinePartition": frozenset({"OnlinePartition", "OfflinePartition"}),
    "OfflinePartition": frozenset({"OnlinePartition", "OfflinePartition", _NO_PARTITION}),
}
_REPLICA_MOVES: Final[Mapping[str, frozenset[str]]] = {
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
# What the machines may set directly when they start, because it is what was found and not a transition.
_FIRST_PARTITION_STATES: Final = frozenset({"NewPartition", "OnlinePartition", "OfflinePartition"})
_FIRST_REPLICA_STATES: Final = frozenset({"OnlineReplica", "ReplicaDeletionIneligible"})


class _Moves(Rule):
    """Transitions against a table; until the event of a snapshot ends, first states are no transitions."""

    kinds = frozenset({SnapshotBegin, EventEnd, PartitionStateRecord, ReplicaStateRecord})

    def __init__(self) -> None:
        self._starting = False

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, SnapshotBegin):
            self._starting = True
        elif isinstance(record, EventEnd):
            self._starting = False
        for what, before, after in self.moves(entry):
            if not self.is_legal(before, after):
                yield f"{what} went from {before} to {after}"

    @abstractmethod
    def moves(self, entry: Entry) -> Iterator[tuple[str, str, str]]:
        """The names that moved, each with its state before and after."""

    @abstractmethod
    def is_legal(self, before: str, after: str) -> bool:
        """Whether the table allows it."""


class ReplicaMovesAreLegal(_Moves):
    """Seven states, one table."""

    id = "I-18"
    title = "replicas move as their state machine allows"
    severity = "error"
    question = "What led to this move, and does the broker do what the controller believes?"

    def moves(self, entry: Entry) -> Iterator[tuple[str, str, str]]:
        """The rows of a record of replica states."""
        if isinstance(entry.record, ReplicaStateRecord):
            record = entry.record
            columns = (record.topics, record.partitions, record.brokers, record.before, record.after)
            for topic, number, broker, before, after in zip(*columns, strict=True):
                yield f"replica {broker} of {topic}-{number}", before, after

    def is_legal(self, before: str, after: str) -> bool:
        """By the table, or as a first state."""
        if self._starting and before == _NO_REPLICA and after in _FIRST_REPLICA_STATES:
            return True
        return after in _REPLICA_MOVES.get(before, ())


class PartitionMovesAreLegal(_Moves):
    """Four states, one table."""

    id = "I-19"
    title = "partitions move as their state machine allows"
    severity = "error"
    question = "What led to this move, and is the partition served?"

    def moves(self, entry: Entry) -> Iterator[tuple[str, str, str]]:
        """The rows of a record of partition states."""
        if isinstance(entry.record, PartitionStateRecord):
            record = entry.record
            columns = (record.topics, record.partitions, record.before, record.after)
            for topic, number, before, after in zip(*columns, strict=True):
                yield f"partition {topic}-{number}", before, after

    def is_legal(self, before: str, after: str) -> bool:
        """By the table, or as a first state."""
        if self._starting and before == _NO_PARTITION and after in _FIRST_PARTITION_STATES:
            return True
        return after in _PARTITION_MOVES.get(before, ())


class SnapshotsAreComplete(Rule):
    """A replay rebuilds the state that the controller had."""

    id = "I-30"
    title = "at the end of a snapshot the replay has as many brokers, topics and partitions as the controller"
    severity = "error"
    question = "What did the controller load that it did not write down?"
    kinds = frozenset({SnapshotEnd})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        if not isinstance(entry.record, SnapshotEnd):
            return
        state, end = entry.state, entry.record
        rebuilt = (len(state.brokers), len(state.topics), sum(len(topic.partitions) for topic in state.topics.values()))
        said = (end.brokers, end.topics, end.partitions)
        if rebuilt != said:
            yield f"the replay has {rebuilt} (brokers, topics, partitions), the controller had {said}"


class DigestsAgree(Rule):
    """The oracle of time travel: what is folded at any moment is what the controller had in mind then."""

    id = "I-30"
    title = "the digest of the replay is the controller's own"
    severity = "error"
    question = "Which change of the controller's picture is not in the log, or came in another order?"
    kinds = frozenset({
        AssignmentRecord,
        DigestRecord,
        LeadershipRecord,
        PartitionStateRecord,
        SnapshotBegin,
        TopicsForgotten,
        TopicsRecord,
    })  # fmt: skip
    sees_pictures = True

    def __init__(self) -> None:
        self._digest = FoldDigest()

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record, state = entry.record, entry.state
        if not isinstance(record, DigestRecord):
            self._digest.see(record)
        elif state.is_whole and (found := self._digest.of(state)) != record.digest:
            yield f"the digest of the replay is {found}, the controller's {record.digest}"


class LogIsWhole(Rule):
    """Losses are declared, and time does not go back. The hash chain is the reader's to check."""

    id = "I-40"
    title = "numbers have no undeclared gap and the monotonic clock never goes back"
    severity = "warning"
    question = "Which part of the log is missing, and was it lost, pruned or removed?"

    def __init__(self) -> None:
        self._seq = 0
        self._mono_ns: int | None = None

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        envelope, record = entry.envelope, entry.record
        expected, last_mono_ns = self._seq + 1, self._mono_ns
        is_first = last_mono_ns is None
        self._seq, self._mono_ns = envelope.seq, envelope.mono_ns
        if isinstance(record, GapRecord) and (record.first_seq, record.last_seq) == (expected, envelope.seq - 1):
            expected = envelope.seq
        if envelope.seq != expected and not is_first:
            yield f"seq {envelope.seq} where {expected} was due"
        if last_mono_ns is not None and envelope.mono_ns < last_mono_ns:
            yield f"the monotonic clock went back by {last_mono_ns - envelope.mono_ns} ns"
