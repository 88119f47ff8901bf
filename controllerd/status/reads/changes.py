"""The last changes of given partitions, found in one pass through the columns of the recent records."""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Final, NamedTuple

from controllerd.core.model import TopicPartition
from controllerd.explain.history import PartitionColumns, read_history
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import LeadershipRecord, PartitionStateRecord
from controllerd.slicer import Slicer


class LastChange(NamedTuple):
    """The last change of the state or leader of a partition (``since``), and of anything; None: not recorded."""

    since: RecentRecord | None
    last: RecentRecord | None


class WantedPartitions:
    """The partitions of a search. A column without any of them is skipped by set operations, without a Python loop."""

    def __init__(self) -> None:
        self._numbers: dict[str, set[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def add(self, topic: str, partition: int) -> None:
        """Add a partition to the search."""
        self._numbers.setdefault(topic, set()).add(partition)

    def discard(self, topic: str, partition: int) -> None:
        """Remove a partition that is found."""
        numbers = self._numbers[topic]
        numbers.discard(partition)
        if not numbers:
            del self._numbers[topic]

    def rows_of(self, record: PartitionColumns) -> Iterator[tuple[int, tuple[str, int]]]:
        """Yield the rows of these partitions, each with its partition, except for partitions found meanwhile."""
        topics, partitions, wanted = record.topics, record.partitions, self._numbers
        if wanted.keys().isdisjoint(topics):
            return
        present = wanted.keys() & set(topics) if len(wanted) > 1 else wanted.keys()
        if len(present) > 1:
            numbers = set[int]().union(*(wanted[topic] for topic in present))
        else:
            numbers = wanted[next(iter(present))]
        for at in compress(range(len(topics)), map(numbers.__contains__, partitions)):
            topic, partition = topics[at], partitions[at]
            if partition in wanted.get(topic, ()):
                yield at, (topic, partition)


class LastChanges:
    """The last changes of the partitions of a search."""

    def __init__(self) -> None:
        self.since: Final[dict[tuple[str, int], RecentRecord]] = {}
        self.last: Final[dict[tuple[str, int], RecentRecord]] = {}

    def of(self, tp: TopicPartition) -> LastChange:
        """Return the last changes of one partition of the search."""
        return LastChange(self.since.get(tp), self.last.get(tp))


class _Search:
    """Reads the records from the newest to the oldest, until the changes of all partitions are found.

    The partition state stays Online when the leader moves in an orderly way: in an election of the
    preferred replica, a controlled shutdown or a reassignment. Therefore the last transition of
    the state is not enough to find the beginning of the present leadership.
    """

    def __init__(self, wanted: WantedPartitions) -> None:
        self._wanted = wanted
        self._leaders: dict[tuple[str, int], int] = {}
        """The present leader of each partition, unless its change is found already."""
        self._same: dict[tuple[str, int], RecentRecord | None] = {}
        """The oldest record found with that leader; None if that record describes loaded state."""
        self._moved: dict[tuple[str, int], RecentRecord] = {}
        """The last transitions of partitions whose leader may have changed later: the leadership before decides."""
        self.changes: Final = LastChanges()

    @property
    def is_done(self) -> bool:
        return not self._wanted

    def read(self, entry: RecentRecord, *, is_loaded: bool) -> None:
        record = entry.record
        if isinstance(record, LeadershipRecord):
            self._read_leaders(entry, record, is_loaded=is_loaded)
        elif isinstance(record, PartitionStateRecord) and not is_loaded:
            self._read_states(entry, record)

    def _read_states(self, entry: RecentRecord, record: PartitionStateRecord) -> None:
        for at, tp in self._wanted.rows_of(record):
            self.changes.last.setdefault(tp, entry)
            if record.before[at] == record.after[at]:
                continue
            if tp in self._leaders:
                self._moved.setdefault(tp, entry)
            else:
                self._found(tp, entry)

    def _read_leaders(self, entry: RecentRecord, record: LeadershipRecord, *, is_loaded: bool) -> None:
        for at, tp in self._wanted.rows_of(record):
            if not is_loaded:
                self.changes.last.setdefault(tp, entry)
            leader = record.leaders[at]
            if self._leaders.setdefault(tp, leader) != leader:
                self._found(tp, self._same[tp] or self._moved.get(tp))
            elif tp in self._moved:
                self._found(tp, self._moved[tp])
            else:
                self._same[tp] = None if is_loaded else entry

    def end(self) -> None:
        """End the search. Where the leader before a transition is unknown, that transition is the change."""
        for tp, entry in self._moved.items():
            self.changes.since.setdefault(tp, entry)

    def _found(self, tp: tuple[str, int], entry: RecentRecord | None) -> None:
        self._wanted.discard(*tp)
        if entry is not None:
            self.changes.since[tp] = entry


async def last_changes(entries: Sequence[RecentRecord], wanted: WantedPartitions, slicer: Slicer) -> LastChanges:
    """Return the last changes of these partitions; ``entries`` newest first."""
    history = await slicer.run(read_history(entries))
    search = _Search(wanted)
    for entry in entries:
        if search.is_done:
            break
        if isinstance(entry.record, PartitionStateRecord | LeadershipRecord):
            search.read(entry, is_loaded=history.is_loaded(entry))
            await slicer.yield_to_loop()
    search.end()
    return search.changes
