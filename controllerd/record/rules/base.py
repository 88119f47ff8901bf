"""The base of all rules: an invariant with a memory, asked about one record after the other. Pure."""

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.record.envelope import Envelope
from controllerd.record.families.partitions import leadership_of
from controllerd.record.records import DecisionRecord, EventBegin, EventEnd, LeadershipRecord, Record, ZkWriteRecord
from controllerd.record.state import ClusterState

_state_path: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state").fullmatch
MOST_SEQS: Final = 20
"""Records that are named as evidence of one violation."""
_NO_DETAIL: Final[Mapping[str, object]] = MappingProxyType({})


class Decided(NamedTuple):
    """The decision of an election for one partition."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool


class LeadershipChange(NamedTuple):
    """A leadership that follows another one, or the first if it is ours; in a record of many, one after the other."""

    tp: TopicPartition
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    is_ours: bool
    """Our own write, in the event at hand."""
    decided: Decided | None
    """The election that led to it, None for all other changes."""


class Entry(NamedTuple):
    """One record in its place. ``state`` is the cluster before the record; ``event`` the event's name, or empty."""

    envelope: Envelope
    record: Record
    state: ClusterState
    event: str = ""
    detail: Mapping[str, object] = _NO_DETAIL
    """The details in the record that began the event."""
    changes: Sequence[LeadershipChange] = ()
    is_known_in_part: bool = False
    """The records before this one are gone: its causes and effects may have been seen in part only."""


def is_picture(entry: Entry) -> bool:
    """Whether it only says what is: a row of a periodic snapshot, or a change before that can be judged."""
    return entry.envelope.event == 0 or entry.is_known_in_part


Severity = Literal["critical", "error", "warning"]
"""``critical``: data may be lost, or two lead; ``error``: wrong, and brokers are safe; ``warning``: look at it."""


class Evidence(NamedTuple):
    """The evidence of a violation, where the text and the records of the event at hand are not enough."""

    text: str
    seqs: tuple[int, ...] = ()
    """Earlier records of the same log that it rests on."""
    at: Envelope | None = None
    """The record that it is about, if that is not the one being looked at."""


class Rule(ABC):
    """One invariant. ``id`` and ``title`` are for people, ``question`` is what to ask when it does not hold."""

    id: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity]
    question: ClassVar[str]
    kinds: ClassVar[frozenset[type[Record]] | None] = None
    """The records that it looks at, None for all: it is not asked about others, and there are many others."""
    sees_pictures: ClassVar[bool] = False
    """Whether it is asked about the rows of a periodic snapshot as well, which say what is and not what happens."""
    across_nodes: ClassVar[bool] = False
    """Whether it speaks about all nodes together, or about the log of one boot of one node."""

    @abstractmethod
    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        """Evidence of each violation by this record."""

    def finish(self) -> Iterator[str | Evidence]:
        """Evidence of violations that only the complete log shows."""
        yield from ()


class CurrentEvent:
    """Follows which event is being handled, and what it has decided and written to state znodes so far."""

    def __init__(self) -> None:
        self.name = ""
        self.detail: Mapping[str, object] = _NO_DETAIL
        self._records: list[tuple[type[Record], int]] = []
        self._written: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._decided: dict[TopicPartition, Decided] = {}
        self._handlers: Mapping[type[Record], Callable[[Any], None]] = {
            EventBegin: self._begin,
            EventEnd: self._end,
            ZkWriteRecord: self._see_write,
            DecisionRecord: self._see_decision,
        }

    def see(self, envelope: Envelope, record: Record) -> None:
        """The next record."""
        kind = type(record)
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(record)
        self._records.append((kind, envelope.seq))

    def seqs(self, kinds: frozenset[type[Record]] | None) -> list[int]:
        """The event's beginning, its records of these kinds so far, and the newest record of all; not too many."""
        found = [seq for kind, seq in self._records if kind is EventBegin or (kinds is not None and kind in kinds)]
        newest = self._records[-1][1]
        if newest not in found[-1:]:
            found.append(newest)
        return found if len(found) <= MOST_SEQS else [found[0], *found[1 - MOST_SEQS :]]

    def _begin(self, record: EventBegin) -> None:
        self.name, self.detail = record.name, record.detail
        self._records.clear()
        self._written.clear()
        self._decided.clear()

    def _end(self, _record: EventEnd) -> None:
        self.name, self.detail = "", _NO_DETAIL

    def _see_decision(self, record: DecisionRecord) -> None:
        columns = (record.topics, record.partitions, record.leaders, record.isrs, record.unclean)
        for topic, number, leader, isr, unclean in zip(*columns, strict=True):
            self._decided[TopicPartition(topic, number)] = Decided(leader, tuple(isr), unclean)

    def _see_write(self, record: ZkWriteRecord) -> None:
        for path, result, version in zip(record.paths, record.results, record.versions, strict=True):
            match = _state_path(path) if result == "ok" and version >= 0 else None
            if match is not None:
                self._written[TopicPartition(match[1], int(match[2]))].add(version)

    def changes(self, record: Record, state: ClusterState) -> Sequence[LeadershipChange]:
        """The leaderships of ``state`` that this record changes; one that is read for the first time is no change."""
        if not isinstance(record, LeadershipRecord):
            return ()
        found: list[LeadershipChange] = []
        latest: dict[TopicPartition, LeaderAndIsr] = {}
        for index, (topic, number) in enumerate(zip(record.topics, record.partitions, strict=True)):
            tp, version = TopicPartition(topic, number), record.partition_epochs[index]
            before = latest.get(tp)
            if before is None and (known := state.partition(tp)) is not None:
                before = known.leadership
            is_ours = version in self._written.get(tp, ())
            if is_ours or (before is not None and version > before.partition_epoch):
                after = latest[tp] = leadership_of(record, index)
                found.append(LeadershipChange(tp, before, after, is_ours, self._decision(tp, after)))
        return found

    def _decision(self, tp: TopicPartition, after: LeaderAndIsr) -> Decided | None:
        """The decision that this is the result of; it explains one change, not the next one as well."""
        decided = self._decided.get(tp)
        if decided is None or (decided.leader, decided.isr) != (after.leader, after.isr):
            return None
        return self._decided.pop(tp)
