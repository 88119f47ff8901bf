"""What was found, for the audit log and for who asks: rows of one cause, and totals of all."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.observer.judge import Verdict
from controllerd.pace import sliced
from controllerd.record.observation import ObservationRecord
from controllerd.record.records import MAX_ROWS

NO_STATE: Final = -2
"""Leader and leader epoch of a partition without a state."""
NOT_JUDGED: Final = "not judged"
KEPT: Final = 200
"""Rows that are kept for who asks; the audit log has all of them."""
CANNOT_BE_SEEN: Final = (
    "requests to brokers, and when they are sent",
    "answers to brokers and clients",
    "failures of log directories",
    "the start of reassignments that were asked for by request",
    "the progress of deletions before their end",
    "producer ids",
    "quotas",
)
"""What an observer of ZooKeeper says nothing about, however long it looks."""


class Row(NamedTuple):
    """One partition: before, as ours would have left it, after. ``verdict`` is None where nothing can be compared."""

    tp: TopicPartition
    before: LeaderAndIsr | None
    would: LeaderAndIsr | None
    after: LeaderAndIsr | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of one cause."""

    cause: str
    subjects: tuple[str, ...]
    controller_epoch: int
    rows: tuple[Row, ...]

    def records(self) -> Iterator[ObservationRecord]:
        """For the audit log, at most ``MAX_ROWS`` partitions each; one without rows when it concerned none."""
        parts = list(sliced(self.rows, MAX_ROWS)) or [()]
        for number, part in enumerate(parts):
            yield self._record(part, continues=number > 0)

    def _record(self, rows: Sequence[Row], *, continues: bool) -> ObservationRecord:
        return ObservationRecord(
            self.cause,
            list(self.subjects),
            self.controller_epoch,
            [row.tp.topic for row in rows],
            [row.tp.partition for row in rows],
            *_columns(row.before for row in rows),
            *_columns(row.would for row in rows),
            *_columns(row.after for row in rows),
            [told(row.verdict) for row in rows],
            continues=continues,
        )


def _columns(states: Iterable[LeaderAndIsr | None]) -> tuple[list[int], list[int], list[list[int]]]:
    known = list(states)
    return (
        [state.leader if state is not None else NO_STATE for state in known],
        [state.leader_epoch if state is not None else NO_STATE for state in known],
        [list(state.isr) if state is not None else [] for state in known],
    )


def told(verdict: Verdict | None) -> str:
    """A verdict in words."""
    return str(verdict) if verdict is not None else NOT_JUDGED


class Report:
    """Everything that was found so far: totals of all, and the newest rows."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, str]] = Counter()
        """Partitions by cause and ruling."""
        self.latest: deque[tuple[str, Row]] = deque(maxlen=KEPT)
        """The newest rows with their causes, oldest first."""

    def add(self, cause: str, rows: Iterable[Row]) -> None:
        """Count what came of a cause, or a part of it."""
        for row in rows:
            ruling = row.verdict.ruling.value if row.verdict is not None else NOT_JUDGED
            self.totals[cause, ruling] += 1
            self.latest.append((cause, row))
