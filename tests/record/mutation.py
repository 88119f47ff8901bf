"""Minimal edits of true logs: find the first place where one makes sense, and leave everything else as it was."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from controllerd.record.envelope import Envelope
from controllerd.record.fold import apply
from controllerd.record.records import LeadershipRecord, Record
from controllerd.record.rules.base import CurrentEvent, LeadershipChange
from controllerd.record.state import ClusterState
from tests.record.logs import Log

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Place:
    """A record of a log with what its node knew before it; good until the next place is asked for."""

    log: Log
    index: int
    state: ClusterState
    event: str
    changes: Sequence[LeadershipChange]

    @property
    def envelope(self) -> Envelope:
        """Of the record."""
        return self.log[self.index][0]

    def later(self, kind: type[R]) -> Iterator[R]:
        """Records of a kind that the same node wrote afterwards."""
        for envelope, record in self.log[self.index + 1 :]:
            if isinstance(record, kind) and _boot(envelope) == _boot(self.envelope):
                yield record

    def earlier(self, kind: type[R]) -> list[int]:
        """Where records of a kind stand that the same node wrote before."""
        return [
            index
            for index, (envelope, record) in enumerate(self.log[: self.index])
            if isinstance(record, kind) and _boot(envelope) == _boot(self.envelope)
        ]

    def of_event(self, kind: type[R]) -> list[tuple[int, R]]:
        """The records of a kind in the same event, and where they stand."""
        here = (*_boot(self.envelope), self.envelope.event)
        return [
            (index, record)
            for index, (envelope, record) in enumerate(self.log)
            if isinstance(record, kind) and (*_boot(envelope), envelope.event) == here
        ]


def places(log: Log, kind: type[R]) -> Iterator[tuple[Place, R]]:
    """Every record of a kind."""
    states: dict[tuple[int, str], tuple[ClusterState, CurrentEvent]] = {}
    for index, (envelope, record) in enumerate(log):
        state, event = states.setdefault(_boot(envelope), (ClusterState(), CurrentEvent()))
        event.add(envelope, record)
        if isinstance(record, kind):
            changes = event.changes(record, state) if isinstance(record, LeadershipRecord) else ()
            yield Place(log, index, state, event.name, changes), record
        apply(state, envelope, record)


Edit = Callable[[Log], Log | None]
"""The log with one thing wrong in it, None where it has no place for that."""


def edited(kind: type[R], edit: Callable[[Place, R], Record | None]) -> Edit:
    """Another record in the first place for which ``edit`` gives one."""

    def apply_to(log: Log) -> Log | None:
        for place, record in places(log, kind):
            if (other := edit(place, record)) is not None:
                return with_record(log, place.index, other)
        return None

    return apply_to


def rewritten(kind: type[R], edit: Callable[[Place, R], Log | None]) -> Edit:
    """The first log that ``edit`` makes of it."""
    return lambda log: next((found for place, record in places(log, kind) if (found := edit(place, record))), None)


def with_record(log: Log, index: int, record: Record) -> Log:
    """Another record in this place."""
    return [*log[:index], (replace(log[index][0], kind=record.kind), record), *log[index + 1 :]]


def without(log: Log, index: int) -> Log:
    """The log of a controller that never wrote this record."""
    return log[:index] + _moved(log[index + 1 :], log[index][0], -1)


def with_more(log: Log, index: int, *records: Record) -> Log:
    """The log of a controller that wrote more records after this one."""
    at = log[index][0]
    more = [(replace(at, seq=at.seq + offset, kind=record.kind), record) for offset, record in enumerate(records, 1)]
    return log[: index + 1] + more + _moved(log[index + 1 :], at, len(records))


def _moved(log: Log, at: Envelope, by: int) -> Log:
    return [(replace(e, seq=e.seq + by) if _boot(e) == _boot(at) else e, record) for e, record in log]


def cells(record: R, index: int, **columns: Any) -> R:
    """The record with other cells in one of its rows."""
    changed = {}
    for name, cell in columns.items():
        column = list(getattr(record, name))
        column[index] = cell
        changed[name] = column
    return replace(record, **changed)


def _boot(envelope: Envelope) -> tuple[int, str]:
    return envelope.node, envelope.boot
