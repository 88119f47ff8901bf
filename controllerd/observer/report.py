"""The results of comparisons: rows of one cause for the audit log, and totals of all causes for readers."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.observer.verdicts import PartitionVerdict
from controllerd.record.families.operators import ObservationRecord
from controllerd.record.records import MAX_ROWS
from controllerd.slicer import sliced

NO_STATE: Final = -2
"""Leader and leader epoch of a partition without a state."""
NOT_JUDGED: Final = "not judged"
KEPT: Final = 200
"""The number of newest rows that are stored for readers; the audit log has all of them."""
CANNOT_BE_SEEN: Final = (
    "requests to brokers, and when they are sent",
    "answers to brokers and clients",
    "failures of log directories",
    "the start of reassignments that were asked for by request",
    "the progress of deletions before their end",
    "producer ids",
    "quotas",
)
"""The behaviour of a controller that an observer of ZooKeeper cannot compare."""


class ComparisonRow(NamedTuple):
    """One partition: its state before, after the dry run, and after. ``verdict`` is None if nothing can be compared."""

    tp: TopicPartition
    before: LeaderAndIsr | None
    would: LeaderAndIsr | None
    after: LeaderAndIsr | None
    verdict: PartitionVerdict | None


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one cause."""

    cause: str
    subjects: tuple[str, ...]
    controller_epoch: int
    rows: tuple[ComparisonRow, ...]

    def records(self) -> Iterator[ObservationRecord]:
        """Yield records of at most ``MAX_ROWS`` partitions; one without rows for a cause without partitions."""
        parts = list(sliced(self.rows, MAX_ROWS)) or [()]
        for number, part in enumerate(parts):
            yield self._record(part, continues=number > 0)

    def _record(self, rows: Sequence[ComparisonRow], *, continues: bool) -> ObservationRecord:
        return ObservationRecord(
            self.cause,
            list(self.subjects),
            self.controller_epoch,
            [row.tp.topic for row in rows],
            [row.tp.partition for row in rows],
            *_columns(row.before for row in rows),
            *_columns(row.would for row in rows),
            *_columns(row.after for row in rows),
            [verdict_text(row.verdict) for row in rows],
            continues=continues,
        )


def _columns(states: Iterable[LeaderAndIsr | None]) -> tuple[list[int], list[int], list[list[int]]]:
    known = list(states)
    return (
        [state.leader if state is not None else NO_STATE for state in known],
        [state.leader_epoch if state is not None else NO_STATE for state in known],
        [list(state.isr) if state is not None else [] for state in known],
    )


def verdict_text(verdict: PartitionVerdict | None) -> str:
    """Return a verdict as text."""
    return str(verdict) if verdict is not None else NOT_JUDGED


class ObservationReport:
    """All results so far: totals, and the newest rows."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, str]] = Counter()
        """Partitions by cause and ruling."""
        self.latest: deque[tuple[str, ComparisonRow]] = deque(maxlen=KEPT)
        """The newest rows with their causes, oldest first."""

    def add(self, cause: str, rows: Iterable[ComparisonRow]) -> None:
        """Count the rows of a cause, or a part of them."""
        for row in rows:
            ruling = row.verdict.ruling.value if row.verdict is not None else NOT_JUDGED
            self.totals[cause, ruling] += 1
            self.latest.append((cause, row))
