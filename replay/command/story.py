"""The life of one partition as the log tells it: who led it when, and what was going on each time that changed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from controllerd.core.model import LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from replay.envelope import Envelope
from replay.fold import ClusterState, PartitionPicture
from replay.records import (
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    EventBegin,
    GapRecord,
    OfflineDirsRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    TermRecord,
    TopicsForgotten,
)
from replay.travel import Logged, Traveller

MAX_NOTES: Final = 50
"""What was refused is kept so many times: the same thing is refused again and again."""


@dataclass(slots=True)
class Scene:
    """What an event was about, as far as it has come."""

    event: int = 0
    name: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)
    gone: tuple[int, ...] = ()
    come: tuple[int, ...] = ()
    shutting_down: tuple[int, ...] = ()
    failed_dirs: tuple[int, ...] = ()
    """Brokers with a failed log directory that holds the partition."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From one change to the next: who led the partition, in what company, and the scene in which it began.

    ``leader`` None: nobody; ``exists`` says whether there was such a partition at all.
    """

    at: Envelope
    exists: bool
    leader: int | None
    leadership: LeaderAndIsr | None
    assignment: ReplicaAssignment | None
    live: frozenset[int]
    shutting_down: frozenset[int]
    scene: Scene
    strategy: str | None = None
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was said of the partition: a refusal, a step of its reassignment or of its topic's deletion."""

    at: Envelope
    text: str


@dataclass(frozen=True, slots=True)
class IsrChange:
    """The ISR of the partition changed."""

    at: Envelope
    before: tuple[int, ...]
    after: tuple[int, ...]
    scene: Scene


class Story:
    """Give it the records in order; afterwards it has the turns, the notes and the times without a controller."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.turns: list[Turn] = []
        self.notes: list[Note] = []
        self.isr_changes: list[IsrChange] = []
        self.terms: list[tuple[Envelope, TermRecord]] = []
        self.gaps: list[tuple[Envelope, GapRecord]] = []
        self.first: Envelope | None = None
        self.last: Envelope | None = None
        self._traveller = Traveller()
        self._scene = Scene()
        self._decided: tuple[str, bool] | None = None

    def see(self, envelope: Envelope, record: Record) -> None:
        """The next record."""
        self.first = self.first or envelope
        self.last = envelope
        before = self._leadership()
        self._look(envelope, record)
        self._traveller.see(envelope, record)
        self._compare(envelope, before)

    def turn_at(self, ts_ms: int) -> int | None:
        """The index of the turn that the moment falls into, None before the first one."""
        found = None
        for index, turn in enumerate(self.turns):
            if turn.at.ts_ms > ts_ms:
                break
            found = index
        return found

    # -- one record --------------------------------------------------------------------------------------------------

    def _look(self, envelope: Envelope, record: Record) -> None:
        """What the record says beside what the fold makes of it."""
        match record:
            case EventBegin():
                self._scene, self._decided = Scene(record.number, record.name, record.detail), None
            case BrokersRecord():
                self._scene.gone += tuple(record.gone)
                self._scene.come += tuple(row.id for row in record.live)
                self._scene.shutting_down += tuple(record.shutting_down)
            case OfflineDirsRecord() if self._is_in(record.topics, record.partitions):
                self._scene.failed_dirs += (record.broker,)
            case DecisionRecord():
                self._look_at_decision(record)
            case TermRecord():
                self.terms.append((envelope, record))
            case GapRecord():
                self.gaps.append((envelope, record))
            case _:
                self._take_notes(envelope, record)

    def _look_at_decision(self, record: DecisionRecord) -> None:
        for topic, number, unclean in zip(record.topics, record.partitions, record.unclean, strict=True):
            if (topic, number) == self.tp:
                self._decided = record.strategy, unclean

    def _take_notes(self, envelope: Envelope, record: Record) -> None:
        for text in self._said(record):
            if len(self.notes) >= MAX_NOTES and self.notes[-1].text == text:
                self.notes.pop()
            self.notes.append(Note(envelope, text))

    def _said(self, record: Record) -> Iterator[str]:
        match record:
            case RefusedRecord():
                for topic, number, reason in zip(record.topics, record.partitions, record.reasons, strict=True):
                    if (topic, number) == self.tp:
                        yield f"{record.what} refused: {reason}"
            case ReassignmentRecord() if self._is_in(record.topics, record.partitions):
                yield f"reassignment {record.step}"
            case DeletionRecord():
                for topic, change, why in zip(record.topics, record.changes, record.reasons, strict=True):
                    if topic == self.tp.topic:
                        yield f"deletion of the topic {change}" + (f": {why}" if why else "")
            case TopicsForgotten() if self.tp.topic in record.names:
                yield "the topic is gone"
            case _:
                return

    def _is_in(self, topics: list[str], partitions: list[int]) -> bool:
        return self.tp in zip(topics, partitions, strict=True)

    # -- what it changed ---------------------------------------------------------------------------------------------

    def _leadership(self) -> LeaderAndIsr | None:
        partition = self._state.partition(self.tp)
        return partition.leadership if partition is not None else None

    @property
    def _state(self) -> ClusterState:
        return self._traveller.state

    def _compare(self, envelope: Envelope, before: LeaderAndIsr | None) -> None:
        partition = self._state.partition(self.tp)
        after = partition.leadership if partition is not None else None
        if before is not None and after is not None and before.isr != after.isr:
            self.isr_changes.append(IsrChange(envelope, before.isr, after.isr, self._scene))
        leader = None if partition is None else leader_of(partition)
        if self.turns and (self.turns[-1].exists, self.turns[-1].leader) == (partition is not None, leader):
            return
        self.turns.append(self._turn(envelope, partition, leader))

    def _turn(self, envelope: Envelope, partition: PartitionPicture | None, leader: int | None) -> Turn:
        state = self._state
        leadership, assignment = (partition.leadership, partition.assignment) if partition is not None else (None, None)
        live, stopping = frozenset(state.brokers), frozenset(state.shutting_down)
        return Turn(
            envelope,
            partition is not None,
            leader,
            leadership,
            assignment,
            live,
            stopping,
            self._scene,
            *(self._decided or (None, False)),
        )


def leader_of(partition: PartitionPicture) -> int | None:
    """Who leads: nobody while the partition is offline, whatever its state znode still says."""
    leadership = partition.leadership
    if leadership is None or leadership.leader < 0 or partition.state is PartitionState.OFFLINE:
        return None
    return int(leadership.leader)


def tell(tp: TopicPartition, entries: Iterable[Logged], until_ms: int | None = None) -> Story:
    """The story of a partition, read until it has a leader again after ``until_ms`` (to the end when None)."""
    story = Story(tp)
    for envelope, record in entries:
        story.see(envelope, record)
        is_past = until_ms is not None and envelope.ts_ms > until_ms
        if is_past and story.turns[-1].leader is not None:
            break
    return story
