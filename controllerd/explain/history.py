"""The recent records by kind: the history of one partition, and the last transitions of a partition, topic or broker.

Records are not indexed when they are written. Each explanation sorts and searches them, in steps between which the
event loop may run. A column is searched with ``list.index``, which takes about ten nanoseconds a row.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_LEADER, TopicPartition
from controllerd.core.text import counted
from controllerd.explain.answers import Transition, error_name, ids
from controllerd.record.envelope import RecentRecord
from controllerd.record.moments import moment
from controllerd.record.records import (
    AssignmentRecord,
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    QuarantineRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    ResponseRecord,
    SnapshotBegin,
    SnapshotEnd,
    TopicsForgotten,
    TopicsRecord,
)
from events.operator import DrainBroker

LIMIT: Final = 20
"""The number of transitions in one answer."""
_ROWS_PER_STEP: Final = 20_000
_ENTRIES_PER_STEP: Final = 1_000
_FOREVER: Final = 2**62
T = TypeVar("T")
R = TypeVar("R", bound=Record)
C = TypeVar(
    "C", LeadershipRecord, AssignmentRecord, PartitionStateRecord, DecisionRecord, RefusedRecord, ReassignmentRecord
)

Steps: TypeAlias = Generator[None, None, T]
"""A long computation that returns T. At each yield, its caller may let the event loop run."""
_Numbered = tuple[int, Transition]


class PartitionColumns(Protocol):
    """A record about many partitions."""

    @property
    def topics(self) -> Sequence[str]:
        """The topic of each row."""
        ...

    @property
    def partitions(self) -> Sequence[int]:
        """The partition's number of each row."""
        ...


class PastLeadership(NamedTuple):
    """A recorded leadership; ``is_loaded``: it was read at the begin of a term, and is no change."""

    entry: RecentRecord
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    is_loaded: bool


class PastAssignment(NamedTuple):
    """A recorded assignment; ``is_loaded``: it was read at the begin of a term, and is no change."""

    entry: RecentRecord
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    is_loaded: bool


class PastState(NamedTuple):
    """A transition of the partition state machine, in Kafka's names."""

    entry: RecentRecord
    before: str
    after: str

    @property
    def is_loaded(self) -> bool:
        """Whether a new controller derived the state from what it read; a created partition is New first."""
        return self.before == "NonExistentPartition" and self.after != "NewPartition"


class PastElection(NamedTuple):
    """An election that found a leader."""

    entry: RecentRecord
    strategy: str
    leader: int
    unclean: bool


class PastRefusal(NamedTuple):
    """A refused request or decision."""

    entry: RecentRecord
    what: str
    reason: str


class PastStep(NamedTuple):
    """A step of a reassignment."""

    entry: RecentRecord
    step: str


@dataclass(slots=True)
class PartitionHistory:
    """The recent records about one partition; each list newest first."""

    leaderships: list[PastLeadership] = field(default_factory=list)
    assignments: list[PastAssignment] = field(default_factory=list)
    states: list[PastState] = field(default_factory=list)
    elections: list[PastElection] = field(default_factory=list)
    refusals: list[PastRefusal] = field(default_factory=list)
    steps: list[PastStep] = field(default_factory=list)

    def since(self, holds: Callable[[PastLeadership], bool]) -> RecentRecord | None:
        """The record since which every leadership satisfies ``holds``; None if it is not among the recent records."""
        latest: RecentRecord | None = None
        for one in self.leaderships:
            if not holds(one):
                break
            latest = None if one.is_loaded else one.entry
        return latest


class History:
    """The recent records by kind, newest first. Made by ``read_history``."""

    def __init__(self, entries: Sequence[RecentRecord], by_kind: dict[type[Record], list[RecentRecord]]) -> None:
        self._entries = entries
        self._by_kind = by_kind
        self._loads = list(self._find_loads())
        self._refusals: dict[int, list[tuple[RecentRecord, ResponseRecord]]] | None = None

    @property
    def oldest_ms(self) -> int | None:
        """The time of the oldest of the recent records; None without records."""
        return self._entries[-1].at_ms if self._entries else None

    def of(self, kind: type[R]) -> Iterator[tuple[RecentRecord, R]]:
        """The records of one type, newest first."""
        for entry in self._by_kind.get(kind, ()):
            assert isinstance(entry.record, kind)
            yield entry, entry.record

    def refusals_of(self, broker: int) -> Sequence[tuple[RecentRecord, ResponseRecord]]:
        """The responses of a broker that contain errors, newest first."""
        if self._refusals is None:
            self._refusals = {}
            for entry, record in self.of(ResponseRecord):
                if record.error or refused_partitions(record):
                    self._refusals.setdefault(record.broker, []).append((entry, record))
        return self._refusals.get(broker, ())

    def is_loaded(self, entry: RecentRecord) -> bool:
        """Whether the record describes state that was read, and is no change."""
        return any(
            begin < entry.number < end and not (is_periodic and entry.event) for begin, end, is_periodic in self._loads
        )

    def terms_begun(self) -> Iterator[RecentRecord]:
        """The first records of the terms of this instance, newest first. Each term begins with a read of all state."""
        return (entry for entry, record in self.of(SnapshotBegin) if not record.periodic)

    def partition(self, tp: TopicPartition) -> Steps[PartitionHistory]:
        """Find the history of one partition."""
        found = PartitionHistory()
        for entry, at, record in (yield from self._rows(LeadershipRecord, tp)):
            isr, is_loaded = tuple(record.isrs[at]), self.is_loaded(entry)
            leadership = PastLeadership(entry, record.leaders[at], record.leader_epochs[at], isr, is_loaded)
            found.leaderships.append(leadership)
        for entry, at, assigned in (yield from self._rows(AssignmentRecord, tp)):
            columns = (assigned.replicas, assigned.adding, assigned.removing)
            replicas, adding, removing = (tuple(column[at]) for column in columns)
            found.assignments.append(PastAssignment(entry, replicas, adding, removing, self.is_loaded(entry)))
        for entry, at, state in (yield from self._rows(PartitionStateRecord, tp)):
            found.states.append(PastState(entry, state.before[at], state.after[at]))
        for entry, at, decided in (yield from self._rows(DecisionRecord, tp)):
            election = PastElection(entry, decided.strategy, decided.leaders[at], decided.unclean[at])
            found.elections.append(election)
        for entry, at, refused in (yield from self._rows(RefusedRecord, tp)):
            found.refusals.append(PastRefusal(entry, refused.what, refused.reasons[at]))
        for entry, _, step in (yield from self._rows(ReassignmentRecord, tp)):
            found.steps.append(PastStep(entry, step.step))
        return found

    def _rows(self, kind: type[C], tp: TopicPartition) -> Steps[list[tuple[RecentRecord, int, C]]]:
        """Find the rows of one partition in the records of one type, newest first."""
        found, looked_at = list[tuple[RecentRecord, int, C]](), 0
        for entry in self._by_kind.get(kind, ()):
            record = entry.record
            assert isinstance(record, kind)
            found += [(entry, at, record) for at in reversed(list(find_rows(record, tp)))]
            looked_at += len(record.topics)
            if looked_at > _ROWS_PER_STEP:
                looked_at = 0
                yield
        return found

    def _find_loads(self) -> Iterator[tuple[int, int, bool]]:
        """The ranges of records (first, last) that were loaded, and whether the state was known already."""
        begins = {entry.number: record.periodic for entry, record in self.of(SnapshotBegin)}
        ends = sorted(entry.number for entry, _ in self.of(SnapshotEnd))
        for begin, is_periodic in begins.items():
            yield begin, next((end for end in ends if end > begin), _FOREVER), is_periodic
        if ends and (not begins or ends[0] < min(begins)):
            yield 0, ends[0], True  # its first record is no longer among the recent ones


def read_history(entries: Sequence[RecentRecord]) -> Steps[History]:
    """Sort the recent records (newest first) by kind."""
    by_kind: dict[type[Record], list[RecentRecord]] = {}
    for at, entry in enumerate(entries):
        by_kind.setdefault(type(entry.record), []).append(entry)
        if not at % _ENTRIES_PER_STEP:
            yield
    return History(entries, by_kind)


def find_rows(record: PartitionColumns, tp: TopicPartition) -> Iterator[int]:
    """The rows of one partition; the two columns are searched alternately."""
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


def refused_partitions(record: ResponseRecord) -> dict[str, int]:
    """The partitions with an error.

    STALE_CONTROLLER_EPOCH for a single partition only means that the broker knew its leader epoch already, as after
    every failover.
    """
    return {name: code for name, code in record.errors.items() if code != KafkaError.STALE_CONTROLLER_EPOCH}


# -- transitions -------------------------------------------------------------------------------------------------------


def transitions_of_partition(
    entries: Sequence[RecentRecord], tp: TopicPartition, limit: int = LIMIT
) -> Steps[list[Transition]]:
    """Find the last transitions of a partition, newest last. ``entries``: the recent records, newest first."""
    history = yield from read_history(entries)
    past = yield from history.partition(tp)
    found = [*_leaderships(past), *_assignments(past)]
    found += [_numbered(one.entry, "state", one.after, was=one.before) for one in past.states if not one.is_loaded]
    found += [_numbered(one.entry, "refused", f"{one.what} refused", reason=one.reason) for one in past.refusals]
    found += [_numbered(one.entry, "reassignment", one.step) for one in past.steps]
    found += _quarantines(history, f"/brokers/topics/{tp.topic}/partitions/{tp.partition}", tp.state_path)
    return _newest(found, limit)


def transitions_of_topic(entries: Sequence[RecentRecord], topic: str, limit: int = LIMIT) -> Steps[list[Transition]]:
    """Find the last transitions of the topic itself, newest last; its partitions have their own transitions."""
    history = yield from read_history(entries)
    found = list(_quarantines(history, f"/brokers/topics/{topic}"))
    for entry, record in history.of(TopicsRecord):
        if topic in record.names and not history.is_loaded(entry):
            version = record.znode_versions[record.names.index(topic)]
            found.append(_numbered(entry, "topic", f"its znode was read or written (version {version})"))
    found += [_numbered(entry, "topic", "gone") for entry, gone in history.of(TopicsForgotten) if topic in gone.names]
    for entry, deletion in history.of(DeletionRecord):
        for name, change, reason in zip(deletion.topics, deletion.changes, deletion.reasons, strict=True):
            if name == topic:
                found.append(_numbered(entry, "deletion", f"deletion {change}", reason=reason or ""))
    return _newest(found, limit)


def transitions_of_broker(entries: Sequence[RecentRecord], broker: int, limit: int = LIMIT) -> Steps[list[Transition]]:
    """Find the last transitions of a broker, newest last: it came, left, lost a log directory, or refused a request."""
    history = yield from read_history(entries)
    found = [*_registrations(history, broker), *_quarantines(history, f"/brokers/ids/{broker}")]
    for entry, record in history.of(OfflineDirsRecord):
        if record.broker == broker and not record.continues:
            failed = counted(len(record.topics), "replica") if record.topics else "no replica"
            found.append(_numbered(entry, "log-dirs", f"{failed} on failed log directories"))
    for entry, response in history.refusals_of(broker):
        refused = refused_partitions(response)
        of = f" for {counted(len(refused), 'partition')}" if refused else ""
        named = error_name(response.error or next(iter(refused.values())))
        found.append(_numbered(entry, "refused", f"answered {response.api} with {named}{of}"))
    return _newest(found, limit)


def _with_earlier(items: Sequence[T]) -> Iterator[tuple[T, T | None]]:
    """Yield each item (newest first) with the one before it in time; the oldest one with None."""
    return zip(items, [*items[1:], None], strict=False)


def _leaderships(past: PartitionHistory) -> Iterator[_Numbered]:
    for one, before in _with_earlier(past.leaderships):
        if not one.is_loaded:
            what = "isr" if before is not None and before.leader == one.leader else "leader"
            was = "" if before is None else _leadership(before)
            yield _numbered(one.entry, what, _leadership(one), was=was, reason=_reason(past, one.entry))


def _leadership(one: PastLeadership) -> str:
    leader = "no leader" if one.leader == NO_LEADER else f"leader {one.leader}"
    return f"{leader} (epoch {one.leader_epoch}), isr {ids(one.isr)}"


def _reason(past: PartitionHistory, entry: RecentRecord) -> str:
    """The election of this leader: the last decision before the record, for the same event."""
    decided = next((each for each in past.elections if each.entry.number < entry.number), None)
    if decided is None or decided.entry.event != entry.event:
        return ""
    return f"{decided.strategy} election" + (", unclean: records may be lost" if decided.unclean else "")


def _assignments(past: PartitionHistory) -> Iterator[_Numbered]:
    for one, before in _with_earlier(past.assignments):
        if not one.is_loaded:
            was = "" if before is None else _assignment(before)
            yield _numbered(one.entry, "assignment", _assignment(one), was=was)


def _assignment(one: PastAssignment) -> str:
    adding = f", adding {ids(one.adding)}" if one.adding else ""
    removing = f", removing {ids(one.removing)}" if one.removing else ""
    return f"replicas {ids(one.replicas)}{adding}{removing}"


def _registrations(history: History, broker: int) -> Iterator[_Numbered]:
    for entry, record in history.of(BrokersRecord):
        if broker in record.gone:
            yield _numbered(entry, "broker", "gone from /brokers/ids", was="alive")
        if history.is_loaded(entry):
            continue
        if broker in record.shutting_down:
            is_drained = entry.event_name == DrainBroker.__name__
            reason = "an operator drained it" if is_drained else "it requested a controlled shutdown"
            yield _numbered(entry, "broker", "shutting down", was="alive", reason=reason)
        for row in record.live:
            if row.id == broker:
                yield _numbered(entry, "broker", f"alive (broker epoch {row.epoch})")


def _quarantines(history: History, *paths: str) -> Iterator[_Numbered]:
    for entry, record in history.of(QuarantineRecord):
        if record.path in paths:
            now = "left alone" if record.reason is not None else "understood again"
            yield _numbered(entry, "quarantine", f"{record.path} {now}", reason=record.reason or "")


def _numbered(entry: RecentRecord, what: str, now: str, *, was: str = "", reason: str = "") -> _Numbered:
    """A transition with the number of its record."""
    return entry.number, Transition(
        at=moment(entry.at_ms),
        at_ms=entry.at_ms,
        event_id=entry.event,
        event=entry.event_name,
        what=what,
        was=was,
        now=now,
        reason=reason,
    )


def _newest(found: Iterable[_Numbered], limit: int) -> list[Transition]:
    """The newest transitions, in order of time."""
    ordered = sorted(found, key=lambda numbered: numbered[0])
    return [transition for _, transition in ordered[-limit:]]
