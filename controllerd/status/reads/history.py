"""``/v1/history`` and ``/v1/elections``: who led when, and who was elected why."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from controllerd.clock import iso
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import DecisionRecord, LeadershipRecord, RefusedRecord, TermRecord
from controllerd.status.answers import answer
from controllerd.status.queries import Limit, Query, TopicGlob, asked
from controllerd.status.reads.context import Reading, reading
from controllerd.status.routing import Route
from controllerd.status.schema.work import ElectionItem, ElectionList, Term, TermList
from controllerd.views import Role

_BEGINNINGS: Final = frozenset({"elected", "renewed"})
_ENDS: Final = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})
_FOLLOWS_HOLDER: Final = frozenset({Role.ACTIVE, Role.OBSERVER})
"""Whose epoch is that of whoever holds the role; of others it may be that of a term of their own."""
_NOBODY: Final = "nobody"
_ELECTION: Final = "election "
"""What refused elections are recorded as, followed by the strategy."""


class ElectionQuery(Query, frozen=True, kw_only=True):
    """Which elections."""

    limit: Limit = 100
    topic: TopicGlob = ""


class HistoryReads:
    """What was."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/history`` and ``/v1/elections``."""
        return [
            reading("/v1/history", self.terms, "Who held the role when, as this instance saw it", TermList),
            reading(
                "/v1/elections", self.elections, "The elections of the recent past", ElectionList, query=ElectionQuery
            ),
        ]

    async def terms(self, _request: web.Request) -> web.Response:
        """Newest first."""
        return answer(TermList(meta=self._reading.meta(), items=self._terms()))

    def _terms(self) -> list[Term]:
        sources = self._reading.sources
        snapshot = sources.snapshot()
        terms, holder = list(_terms(list(sources.recent.terms), snapshot.node_id)), snapshot.holder
        is_known = holder is None or (terms and terms[-1].ended is None and terms[-1].holder == str(holder))
        if holder is not None and not is_known:
            knows = snapshot.role in _FOLLOWS_HOLDER
            terms.append(
                Term(
                    controller_epoch=(snapshot.controller_epoch or None) if knows else None,
                    holder=str(holder),
                    began=iso(holder.since_ms),
                    began_ms=holder.since_ms,
                    ended=None,
                    reason=snapshot.reason,
                )
            )
        return terms[::-1]

    async def elections(self, request: web.Request) -> web.Response:
        """Newest first."""
        query = asked(request, ElectionQuery)
        search, pace = _Elections(query), await self._reading.pace()
        for entry in list(self._reading.sources.recent.newest_first()):
            if search.is_done:
                break
            search.look_at(entry)
            await pace.breathe()
        return answer(ElectionList(meta=self._reading.meta(), items=search.items()))


def _terms(entries: list[RecentRecord], node_id: int) -> Iterator[Term]:
    """Oldest first; one that was never seen to end goes until the next one begins."""
    begun: Term | None = None
    for entry in entries:
        record = entry.record
        assert isinstance(record, TermRecord)
        if begun is not None and (record.change in _ENDS or _begins(record)):
            if record.change == "held" and record.holder == begun.holder:
                continue  # the same, seen once more
            why = record.reason if record.change in _ENDS and record.reason else begun.reason
            yield msgspec.structs.replace(begun, ended=iso(entry.at_ms), reason=why)
            begun = None
        if _begins(record):
            begun = _term(entry, record, node_id)
    if begun is not None:
        yield begun


def _begins(record: TermRecord) -> bool:
    return record.change in _BEGINNINGS or (record.change == "held" and record.holder != _NOBODY)


def _term(entry: RecentRecord, record: TermRecord, node_id: int) -> Term:
    """Whoever is elected names in the record from whom it took the role."""
    is_ours = record.change in _BEGINNINGS
    taken = f"{record.change}; held before by {record.holder}"
    return Term(
        controller_epoch=record.controller_epoch or None,
        holder=f"controllerd {node_id}" if is_ours else record.holder,
        began=iso(entry.at_ms),
        began_ms=entry.at_ms,
        ended=None,
        reason=taken if is_ours else record.reason,
    )


class _Found(NamedTuple):
    """One row of an election, or of its failure."""

    entry: RecentRecord
    row: int


class _Elections:
    """Goes back in time, and finds for each election who led before it."""

    def __init__(self, query: ElectionQuery) -> None:
        self._query = query
        self._found: list[_Found] = []
        self._was: dict[int, int] = {}
        """Who led before, by place in what was found."""
        self._open: dict[tuple[str, int], list[int]] = {}

    @property
    def is_done(self) -> bool:
        """Whether everything that is shown is known."""
        return len(self._found) >= self._query.limit and not self._open

    def look_at(self, entry: RecentRecord) -> None:
        """The next older entry."""
        record = entry.record
        if isinstance(record, DecisionRecord) or (
            isinstance(record, RefusedRecord) and record.what.startswith(_ELECTION)
        ):
            self._look_at_election(entry, record.topics, record.partitions)
        elif self._open and isinstance(record, LeadershipRecord):
            for row, tp in enumerate(zip(record.topics, record.partitions, strict=True)):
                self._was.update(dict.fromkeys(self._open.pop(tp, ()), record.leaders[row]))

    def _look_at_election(self, entry: RecentRecord, topics: Sequence[str], partitions: Sequence[int]) -> None:
        pattern = self._query.topic
        for row, topic in enumerate(topics):
            if len(self._found) >= self._query.limit:
                return
            if not pattern or fnmatchcase(topic, pattern):
                self._open.setdefault((topic, partitions[row]), []).append(len(self._found))
                self._found.append(_Found(entry, row))

    def items(self) -> list[ElectionItem]:
        """Newest first."""
        return [self._item(entry, row, self._was.get(at)) for at, (entry, row) in enumerate(self._found)]

    def _item(self, entry: RecentRecord, row: int, was: int | None) -> ElectionItem:
        record = entry.record
        assert isinstance(record, DecisionRecord | RefusedRecord)
        decided = record if isinstance(record, DecisionRecord) else None
        return ElectionItem(
            at=iso(entry.at_ms),
            at_ms=entry.at_ms,
            event_id=entry.event,
            topic=record.topics[row],
            partition=record.partitions[row],
            strategy=decided.strategy if decided is not None else _strategy(record),
            trigger=entry.event_name,
            was=was,
            leader=decided.leaders[row] if decided is not None else None,
            unclean=decided is not None and decided.unclean[row],
            cause=record.reasons[row] if isinstance(record, RefusedRecord) else "",
        )


def _strategy(record: DecisionRecord | RefusedRecord) -> str:
    assert isinstance(record, RefusedRecord)
    return record.what.removeprefix(_ELECTION)
