"""When some partitions last changed, as far as that is remembered: one look through the columns for all of them."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from controllerd.core.model import TopicPartition
from controllerd.pace import Pace
from controllerd.recent import Entry
from controllerd.status.explain.history import History, look_back
from replay.records import LeadershipRecord, PartitionStateRecord


class Change(NamedTuple):
    """Of one partition. ``since``: the state or leader changed last; ``last``: anything did; None: longer ago."""

    since: Entry | None
    last: Entry | None


class _Search:
    """Goes back in time until everything is found, or nothing more is remembered."""

    def __init__(self, wanted: Collection[TopicPartition]) -> None:
        self._open: dict[tuple[str, int], int | None] = dict.fromkeys(wanted)
        """What is still looked for, with the leader that was seen last."""
        self._same: dict[tuple[str, int], Entry | None] = {}
        """The oldest entry known with that leader; None: it was loaded, and led already."""
        self.since: dict[tuple[str, int], Entry] = {}
        self.last: dict[tuple[str, int], Entry] = {}

    @property
    def is_done(self) -> bool:
        return not self._open

    def look_at(self, entry: Entry, *, is_loaded: bool) -> None:
        record = entry.record
        if isinstance(record, PartitionStateRecord):
            self._look_at_states(entry, record, is_loaded=is_loaded)
        elif isinstance(record, LeadershipRecord):
            self._look_at_leaders(entry, record, is_loaded=is_loaded)

    def _look_at_states(self, entry: Entry, record: PartitionStateRecord, *, is_loaded: bool) -> None:
        wanted = self._open
        for at, tp in enumerate(zip(record.topics, record.partitions, strict=True)):
            if tp in wanted and not is_loaded:
                self.last.setdefault(tp, entry)
                if record.before[at] != record.after[at]:
                    self._found(tp, entry)

    def _look_at_leaders(self, entry: Entry, record: LeadershipRecord, *, is_loaded: bool) -> None:
        wanted = self._open
        for at, tp in enumerate(zip(record.topics, record.partitions, strict=True)):
            if tp not in wanted:
                continue
            if not is_loaded:
                self.last.setdefault(tp, entry)
            leader = record.leaders[at]
            if wanted[tp] is None or wanted[tp] == leader:
                wanted[tp], self._same[tp] = leader, None if is_loaded else entry
            else:
                self._found(tp, self._same[tp])

    def _found(self, tp: tuple[str, int], entry: Entry | None) -> None:
        del self._open[tp]
        if entry is not None:
            self.since[tp] = entry


async def last_changes(
    entries: Sequence[Entry], wanted: Collection[TopicPartition], pace: Pace
) -> dict[tuple[str, int], Change]:
    """The last changes of these partitions; ``entries`` newest first."""
    history: History = await look_back(entries, pace)
    search = _Search(wanted)
    for entry in entries:
        if search.is_done:
            break
        if isinstance(entry.record, PartitionStateRecord | LeadershipRecord):
            search.look_at(entry, is_loaded=history.is_loaded(entry))
            await pace.breathe()
    return {tp: Change(search.since.get(tp), search.last.get(tp)) for tp in wanted}
