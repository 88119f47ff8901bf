"""What is remembered, by kind of record, and the story of one partition, found by looking through columns.

Nothing is indexed when records come; whoever asks pays, in slices. A column is searched with ``list.index``, which
takes some ten nanoseconds a row.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeVar

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.pace import Pace
from controllerd.recent import Entry
from controllerd.record.records import (
    AssignmentRecord,
    DecisionRecord,
    LeadershipRecord,
    PartitionStateRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    ResponseRecord,
    SnapshotBegin,
    SnapshotEnd,
)

_ROWS_AT_ONCE: Final = 20_000
_FOREVER: Final = 2**62
R = TypeVar("R", bound=Record)
C = TypeVar(
    "C",
    LeadershipRecord,
    AssignmentRecord,
    PartitionStateRecord,
    DecisionRecord,
    RefusedRecord,
    ReassignmentRecord,
)


class Columns(Protocol):
    """A record about many partitions."""

    @property
    def topics(self) -> Sequence[str]:
        """The topic of each row."""
        ...

    @property
    def partitions(self) -> Sequence[int]:
        """The partition's number of each row."""
        ...


class Row(NamedTuple):
    """One partition in one record."""

    entry: Entry
    at: int


class Led(NamedTuple):
    """A leadership as it became known; ``is_loaded``: it was there already when it was read."""

    entry: Entry
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    is_loaded: bool


class Assigned(NamedTuple):
    """An assignment as it became known."""

    entry: Entry
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    is_loaded: bool


class Moved(NamedTuple):
    """A transition of the partition state machine, in Kafka's names."""

    entry: Entry
    before: str
    after: str

    @property
    def is_loaded(self) -> bool:
        """Whether it is what a new controller made of a state that it read; what is created is New first."""
        return self.before == "NonExistentPartition" and self.after != "NewPartition"


class Decided(NamedTuple):
    """An election that found a leader."""

    entry: Entry
    strategy: str
    leader: int
    isr: tuple[int, ...]
    unclean: bool


class Declined(NamedTuple):
    """Something that was asked and not done."""

    entry: Entry
    what: str
    reason: str


class Step(NamedTuple):
    """A step of a reassignment."""

    entry: Entry
    step: str


@dataclass(slots=True)
class Story:
    """What is remembered of one partition; each list newest first."""

    led: list[Led] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def led_since(self, holds: Callable[[Led], bool]) -> Entry | None:
        """Since when this has been true of its leadership without a break; None when that is longer ago."""
        return _since(self.led, holds)


def _since(led: Sequence[Led], holds: Callable[[Led], bool]) -> Entry | None:
    latest: Entry | None = None
    for one in led:
        if not holds(one):
            break
        latest = None if one.is_loaded else one.entry
    return latest


class History:
    """What is remembered, newest first. Made by ``look_back``."""

    def __init__(self, entries: Sequence[Entry], by_kind: dict[type[Record], list[Entry]], pace: Pace) -> None:
        self._entries = entries
        self._by_kind = by_kind
        self._pace = pace
        self._loads = _loads(by_kind)
        self._refusals: dict[int, list[tuple[Entry, ResponseRecord]]] | None = None

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest came that is remembered; None when nothing is."""
        return self._entries[-1].at_ms if self._entries else None

    def of(self, kind: type[R]) -> Iterator[tuple[Entry, R]]:
        """The records of one type, newest first."""
        for entry in self._by_kind.get(kind, ()):
            assert isinstance(entry.record, kind)
            yield entry, entry.record

    def refusals_of(self, broker: int) -> Sequence[tuple[Entry, ResponseRecord]]:
        """The answers of a broker that told of errors, newest first."""
        if self._refusals is None:
            self._refusals = {}
            for entry, record in self.of(ResponseRecord):
                if record.error or refused_partitions(record):
                    self._refusals.setdefault(record.broker, []).append((entry, record))
        return self._refusals.get(broker, ())

    def is_loaded(self, entry: Entry) -> bool:
        """Whether the record says what was there already when it was read, and is no change."""
        return any(
            begin < entry.number < end and not (is_periodic and entry.event) for begin, end, is_periodic in self._loads
        )

    async def partition(self, tp: TopicPartition) -> Story:
        """The story of one partition."""
        story = Story()
        async for (entry, at), record in self._rows(LeadershipRecord, tp):
            isr = tuple(record.isrs[at])
            story.led.append(Led(entry, record.leaders[at], record.leader_epochs[at], isr, self.is_loaded(entry)))
        async for (entry, at), assignment in self._rows(AssignmentRecord, tp):
            columns = (assignment.replicas, assignment.adding, assignment.removing)
            replicas, adding, removing = (tuple(column[at]) for column in columns)
            story.assigned.append(Assigned(entry, replicas, adding, removing, self.is_loaded(entry)))
        async for (entry, at), move in self._rows(PartitionStateRecord, tp):
            story.moved.append(Moved(entry, move.before[at], move.after[at]))
        async for (entry, at), decision in self._rows(DecisionRecord, tp):
            isr, unclean = tuple(decision.isrs[at]), decision.unclean[at]
            story.decided.append(Decided(entry, decision.strategy, decision.leaders[at], isr, unclean))
        async for (entry, at), refusal in self._rows(RefusedRecord, tp):
            story.declined.append(Declined(entry, refusal.what, refusal.reasons[at]))
        async for (entry, _), step in self._rows(ReassignmentRecord, tp):
            story.steps.append(Step(entry, step.step))
        return story

    async def _rows(self, kind: type[C], tp: TopicPartition) -> AsyncIterator[tuple[Row, C]]:
        """The rows of one partition in the records of one type, newest first; within a record the last one only."""
        looked_at = 0
        for entry in self._by_kind.get(kind, ()):
            record = entry.record
            assert isinstance(record, kind)
            for index in reversed(list(find_rows(record, tp))):
                yield Row(entry, index), record
            looked_at += len(record.topics)
            if looked_at > _ROWS_AT_ONCE:
                looked_at = 0
                await self._pace.breathe()


def find_rows(record: Columns, tp: TopicPartition) -> Iterator[int]:
    """The rows of one partition; both columns are skipped through by turns."""
    topics, partitions, at = record.topics, record.partitions, 0
    try:
        while True:
            at = topics.index(tp.topic, at)
            found = partitions.index(tp.partition, at)
            if found == at or topics[found] == tp.topic:
                yield found
                found += 1
            at = found
    except ValueError:
        return


async def look_back(entries: Sequence[Entry], pace: Pace | None = None) -> History:
    """Sort what is remembered (newest first) by kind of record."""
    pace = pace or Pace()
    by_kind: dict[type[Record], list[Entry]] = {}
    for at, entry in enumerate(entries):
        by_kind.setdefault(type(entry.record), []).append(entry)
        if not at % 1_000:
            await pace.breathe()
    return History(entries, by_kind, pace)


def _loads(by_kind: dict[type[Record], list[Entry]]) -> list[tuple[int, int, bool]]:
    """From and to which entry something was loaded, and whether it was known already."""
    begins = {entry.number: entry.record for entry in by_kind.get(SnapshotBegin, ())}
    ends = sorted(entry.number for entry in by_kind.get(SnapshotEnd, ()))
    loads = []
    for begin, record in begins.items():
        assert isinstance(record, SnapshotBegin)
        end = next((end for end in ends if end > begin), _FOREVER)
        loads.append((begin, end, record.periodic))
    if ends and (not begins or ends[0] < min(begins)):
        loads.append((0, ends[0], True))  # its beginning is forgotten
    return loads


def refused_partitions(record: ResponseRecord) -> dict[str, int]:
    """The partitions with an error.

    Of one partition STALE_CONTROLLER_EPOCH only says that its leader epoch was known already, as after every failover.
    """
    return {name: code for name, code in record.errors.items() if code != KafkaError.STALE_CONTROLLER_EPOCH}
