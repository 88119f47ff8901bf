"""The history of one partition from the log: its leaders, and the event of each change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controllerd.core.model import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.record.envelope import TERM_BEGINS, Envelope
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import (
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    EventBegin,
    GapRecord,
    OfflineDirsRecord,
    Record,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
)
from controllerd.record.state import ClusterState, FoldedPartition
from controllerd.record.travel import SKEW_MS, Logged, StateFold

MAX_NOTES: Final = 50
"""The most notes that are kept: the same request may be refused again and again."""


@dataclass(slots=True)
class EventEffects:
    """The effects of an event on brokers and on the partition, up to the current record."""

    event: int = 0
    name: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)
    gone: tuple[int, ...] = ()
    come: tuple[int, ...] = ()
    shutting_down: tuple[int, ...] = ()
    failed_dirs: tuple[int, ...] = ()
    """Brokers with a failed log directory that holds the partition."""
    is_deleting: bool = False
    """Whether the deletion of the topic was asked for, or began."""


@dataclass(frozen=True, slots=True)
class LeaderPeriod:
    """The time between two changes of the leader, with the live brokers, and the event that began it.

    ``leader`` None: there is no leader; ``exists`` says whether the partition existed.
    """

    at: Envelope
    exists: bool
    leader: int | None
    leadership: LeaderAndIsr | None
    assignment: ReplicaAssignment | None
    live: frozenset[int]
    shutting_down: frozenset[int]
    effects: EventEffects
    strategy: str | None = None
    unclean: bool = False
    is_from_snapshot: bool = False
    """Whether only a periodic snapshot shows the change, because the log lacks the record of the change itself."""


@dataclass(frozen=True, slots=True)
class UnfinishedTerm:
    """A term whose end is not in the log: from its last record to the first record of a later term."""

    last: Envelope
    over: Envelope


@dataclass(frozen=True, slots=True)
class Note:
    """A note on the partition: a refusal, a step of its reassignment or of its topic's deletion."""

    at: Envelope
    text: str


@dataclass(frozen=True, slots=True)
class PastIsrChange:
    """A change of the partition's ISR."""

    at: Envelope
    before: tuple[int, ...]
    after: tuple[int, ...]
    effects: EventEffects


class LoggedHistory:
    """Collect the leaders, the notes and the times without a controller from the records in order."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.periods: list[LeaderPeriod] = []
        self.notes: list[Note] = []
        self.isr_changes: list[PastIsrChange] = []
        self.assignments: list[tuple[Envelope, ReplicaAssignment]] = []
        """The assignments of the partition, each with the position of its first record."""
        self.unfinished_terms: list[UnfinishedTerm] = []
        self.terms: list[tuple[Envelope, TermRecord]] = []
        self.gaps: list[tuple[Envelope, GapRecord]] = []
        self.first: Envelope | None = None
        self.last: Envelope | None = None
        self._fold = StateFold()
        self._effects = EventEffects()
        self._decided: tuple[str, bool] | None = None
        self._in_term: Envelope | None = None
        """The newest record of the current term."""
        self._over = 0
        """The newest epoch whose term has ended."""
        self._is_periodic = False

    @property
    def known_partitions(self) -> list[int]:
        """Return the numbers of the topic's partitions at the last record that was read."""
        topic = self._state.topics.get(self.tp.topic)
        return sorted(topic.partitions) if topic is not None else []

    def see(self, envelope: Envelope, record: Record) -> None:
        """Take the next record."""
        self.first = self.first or envelope
        self.last = envelope
        self._note_unfinished_term(envelope)
        before = self._leadership()
        self._note_record(envelope, record)
        self._fold.apply(envelope, record)
        self._compare(envelope, before, is_from_snapshot=self._is_periodic and isinstance(record, SnapshotEnd))

    def period_at(self, ts_ms: int) -> int | None:
        """Return the index of the period that contains the moment, None before the first one.

        If a clock went back, so that the moment exists twice, the second one counts: that clock had been corrected.
        """
        return max((index for index, period in enumerate(self.periods) if period.at.ts_ms <= ts_ms), default=None)

    # -- one record --------------------------------------------------------------------------------------------------

    def _note_unfinished_term(self, envelope: Envelope) -> None:
        """Note a term that has ended without a record of its end."""
        term = self._in_term
        is_over = term is not None and (envelope.epoch > term.epoch or envelope.node == term.node)
        if term is not None and is_over and not _is_same_boot(envelope, term):
            self.unfinished_terms.append(UnfinishedTerm(term, envelope))
            self._in_term, self._over = None, term.epoch
        if envelope.epoch > self._over and (self._in_term is None or envelope.epoch >= self._in_term.epoch):
            self._in_term = envelope

    def _note_record(self, envelope: Envelope, record: Record) -> None:
        """Note the facts of a record that the fold does not keep."""
        match record:
            case EventBegin():
                self._effects, self._decided = EventEffects(record.number, record.name, record.detail), None
            case BrokersRecord():
                self._effects.gone += tuple(record.gone)
                self._effects.come += tuple(row.id for row in record.live)
                self._effects.shutting_down += tuple(record.shutting_down)
            case OfflineDirsRecord() if self._is_in(record.topics, record.partitions):
                self._effects.failed_dirs += (record.broker,)
            case DecisionRecord():
                self._note_decision(record)
            case TermRecord():
                self.terms.append((envelope, record))
                self._note_term(envelope, record)
            case SnapshotBegin():
                self._is_periodic = record.periodic
            case GapRecord():
                self.gaps.append((envelope, record))
            case _:
                self._take_notes(envelope, record)

    def _note_term(self, envelope: Envelope, record: TermRecord) -> None:
        is_end, term = record.change not in TERM_BEGINS and record.change != "held", self._in_term
        if is_end and term is not None and _is_same_boot(envelope, term):
            self._in_term, self._over = None, term.epoch

    def _note_decision(self, record: DecisionRecord) -> None:
        for topic, number, unclean in zip(record.topics, record.partitions, record.unclean, strict=True):
            if (topic, number) == self.tp:
                self._decided = record.strategy, unclean

    def _take_notes(self, envelope: Envelope, record: Record) -> None:
        if isinstance(record, DeletionRecord) and self.tp.topic in record.topics:
            self._effects.is_deleting = True
        kind = DESCRIPTIONS.get(type(record))
        for text in kind.notes(record, self.tp) if kind is not None and kind.notes is not None else ():
            if len(self.notes) >= MAX_NOTES and self.notes[-1].text == text:
                self.notes.pop()
            self.notes.append(Note(envelope, text))

    def _is_in(self, topics: list[str], partitions: list[int]) -> bool:
        return self.tp in zip(topics, partitions, strict=True)

    # -- what it changed ---------------------------------------------------------------------------------------------

    def _leadership(self) -> LeaderAndIsr | None:
        partition = self._state.partition(self.tp)
        return partition.leadership if partition is not None else None

    @property
    def _state(self) -> ClusterState:
        return self._fold.state

    def _compare(self, envelope: Envelope, before: LeaderAndIsr | None, *, is_from_snapshot: bool) -> None:
        partition = self._state.partition(self.tp)
        if partition is not None and (not self.assignments or self.assignments[-1][1] != partition.assignment):
            self.assignments.append((envelope, partition.assignment))
        after = partition.leadership if partition is not None else None
        if before is not None and after is not None and before.isr != after.isr:
            self.isr_changes.append(PastIsrChange(envelope, before.isr, after.isr, self._effects))
        leader = None if partition is None else leader_of(partition)
        if self.periods and (self.periods[-1].exists, self.periods[-1].leader) == (partition is not None, leader):
            return
        period = self._period(envelope, partition, leader)
        self.periods.append(replace(period, is_from_snapshot=is_from_snapshot and len(self.periods) > 0))

    def _period(self, envelope: Envelope, partition: FoldedPartition | None, leader: int | None) -> LeaderPeriod:
        state = self._state
        leadership, assignment = (partition.leadership, partition.assignment) if partition is not None else (None, None)
        live, stopping = frozenset(state.brokers), frozenset(state.shutting_down)
        return LeaderPeriod(
            envelope,
            partition is not None,
            leader,
            leadership,
            assignment,
            live,
            stopping,
            self._effects,
            *(self._decided or (None, False)),
        )


def _is_same_boot(envelope: Envelope, other: Envelope) -> bool:
    return (envelope.node, envelope.boot) == (other.node, other.boot)


def leader_of(partition: FoldedPartition) -> int | None:
    """Return the leader; None while the partition is offline, even if its state znode still names a leader."""
    leadership = partition.leadership
    if leadership is None or leadership.leader < 0 or partition.state is PartitionState.OFFLINE:
        return None
    return int(leadership.leader)


def read_history(tp: TopicPartition, entries: Iterable[Logged], until_ms: int | None = None) -> LoggedHistory:
    """Return the history of a partition, read until it has a leader after ``until_ms`` (None: to the end)."""
    history, passing = LoggedHistory(tp), Passing(until_ms)
    for envelope, record in entries:
        history.see(envelope, record)
        if passing.is_past(envelope) and history.periods[-1].leader is not None:
            break
    return history


class Passing:
    """Decide whether a moment has passed; a jump of the wall clock alone does not count."""

    def __init__(self, until_ms: int | None) -> None:
        self._until_ms = until_ms
        self._begun: dict[tuple[int, str], Envelope] = {}

    def is_past(self, envelope: Envelope) -> bool:
        """Return whether a record was written after the moment. It has to be called with all records in order."""
        first = self._begun.setdefault((envelope.node, envelope.boot), envelope)
        if self._until_ms is None or envelope.ts_ms <= self._until_ms:
            return False
        steady_ms = first.ts_ms + (envelope.mono_ns - first.mono_ns) // 1_000_000
        return steady_ms > self._until_ms - SKEW_MS
