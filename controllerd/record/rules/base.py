"""The base class of all rules. A rule is an invariant with state, which checks one record after the other. Pure."""

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
"""The most records that one violation names as evidence."""
_NO_DETAIL: Final[Mapping[str, object]] = MappingProxyType({})


class ElectionDecision(NamedTuple):
    """The decision of an election for one partition."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool


class LeadershipChange(NamedTuple):
    """A change of a leadership, or the first leadership of a partition if this controller wrote it."""

    tp: TopicPartition
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    is_ours: bool
    """Whether this controller wrote it, during the current event."""
    decided: ElectionDecision | None
    """The election that led to it; None for other changes."""


class CheckedRecord(NamedTuple):
    """A record to check, with the ``state`` of the cluster before it and the name of the current ``event`` or empty."""

    envelope: Envelope
    record: Record
    state: ClusterState
    event: str = ""
    detail: Mapping[str, object] = _NO_DETAIL
    """The details in the ``event_begin`` record of the event."""
    changes: Sequence[LeadershipChange] = ()
    is_log_cut: bool = False
    """Whether earlier records are missing, so that causes and effects of this one may be missing too."""


def is_snapshot_row(checked: CheckedRecord) -> bool:
    """Whether a record states what exists and is no change to check: in a snapshot, or before the log is complete."""
    return checked.envelope.event == 0 or checked.is_log_cut


Severity = Literal["critical", "error", "warning"]
"""``critical``: data may be lost, or there are two controllers; ``error``: wrong, but brokers are safe."""


class Evidence(NamedTuple):
    """The evidence of a violation that needs more than a text and the records of the current event."""

    text: str
    seqs: tuple[int, ...] = ()
    """Earlier records of the same log that prove the violation."""
    at: Envelope | None = None
    """The record that violates the rule, if it is not the checked one."""


class Rule(ABC):
    """One invariant. ``title`` states it, and ``question`` is the question to investigate after a violation."""

    id: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity]
    question: ClassVar[str]
    kinds: ClassVar[frozenset[type[Record]] | None] = None
    """The kinds of records that it checks; None means all."""
    checks_snapshot_rows: ClassVar[bool] = False
    """Whether it also checks the rows of a periodic snapshot, which state what exists and are no changes."""
    across_nodes: ClassVar[bool] = False
    """Whether it is about all nodes together, and not about the log of one boot of one node."""

    @abstractmethod
    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        """The evidence of each violation by this record."""

    def finish(self) -> Iterator[str | Evidence]:
        """The evidence of violations that only the complete log shows."""
        yield from ()


class CurrentEvent:
    """The event that is being handled, with its decisions and its writes to state znodes so far."""

    def __init__(self) -> None:
        self.name = ""
        self.detail: Mapping[str, object] = _NO_DETAIL
        self._records: list[tuple[type[Record], int]] = []
        self._written: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._decided: dict[TopicPartition, ElectionDecision] = {}
        self._handlers: Mapping[type[Record], Callable[[Any], None]] = {
            EventBegin: self._begin,
            EventEnd: self._end,
            ZkWriteRecord: self._add_write,
            DecisionRecord: self._add_decision,
        }

    def add(self, envelope: Envelope, record: Record) -> None:
        """Add the next record of the log."""
        kind = type(record)
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(record)
        self._records.append((kind, envelope.seq))

    def seqs(self, kinds: frozenset[type[Record]] | None) -> list[int]:
        """The numbers of the first record of the event, of its records of these kinds, and of its newest record.

        There are at most ``MOST_SEQS``.
        """
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

    def _add_decision(self, record: DecisionRecord) -> None:
        columns = (record.topics, record.partitions, record.leaders, record.isrs, record.unclean)
        for topic, number, leader, isr, unclean in zip(*columns, strict=True):
            self._decided[TopicPartition(topic, number)] = ElectionDecision(leader, tuple(isr), unclean)

    def _add_write(self, record: ZkWriteRecord) -> None:
        for path, result, version in zip(record.paths, record.results, record.versions, strict=True):
            match = _state_path(path) if result == "ok" and version >= 0 else None
            if match is not None:
                self._written[TopicPartition(match[1], int(match[2]))].add(version)

    def changes(self, record: Record, state: ClusterState) -> Sequence[LeadershipChange]:
        """The leaderships of ``state`` that the record changes. The first reading of a leadership is no change."""
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

    def _decision(self, tp: TopicPartition, after: LeaderAndIsr) -> ElectionDecision | None:
        """Remove and return the decision that led to this leadership. It explains one change only."""
        decided = self._decided.get(tp)
        if decided is None or (decided.leader, decided.isr) != (after.leader, after.isr):
            return None
        return self._decided.pop(tp)
