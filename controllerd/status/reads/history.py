"""``/v1/history`` and ``/v1/elections``: the terms of controllers, and the elections of leaders with their causes."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from controllerd.clock import iso
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import DecisionRecord, LeadershipRecord, RefusedRecord, TermRecord
from controllerd.status.http.routing import Limit, Query, TopicGlob, parse_query, route
from controllerd.status.reads.context import Reads
from controllerd.status.schema.history import ElectionItem, ElectionList, Term, TermList
from controllerd.views import Role

_BEGINNINGS: Final = frozenset({"elected", "renewed"})
_ENDS: Final = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})
_FOLLOWS_HOLDER: Final = frozenset({Role.ACTIVE, Role.OBSERVER})
"""The roles that know the epoch of the holder; in other roles it may be the epoch of an earlier term of our own."""
_NO_HOLDER: Final = "nobody"
"""The holder in the record of a term without a controller."""
_ELECTION: Final = "election "
"""The record of a refused election has this prefix, and the strategy."""


class ElectionQuery(Query, frozen=True, kw_only=True):
    """The query of the recent elections."""

    limit: Limit = 100
    topic: TopicGlob = ""


class HistoryReads(Reads):
    """The recent terms and elections."""

    @route("/v1/history", "Terms of controllers, as seen by this instance", TermList)
    async def list_terms(self, _request: web.Request) -> TermList:
        """Answer with the terms, newest first."""
        return TermList(meta=self._context.meta(), items=self._terms())

    def _terms(self) -> list[Term]:
        snapshot = self._snapshot
        terms, holder = list(_terms(list(self._sources.recent.terms), snapshot.node_id)), snapshot.holder
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

    @route("/v1/elections", "Recent elections of leaders", ElectionList, query=ElectionQuery)
    async def list_elections(self, request: web.Request) -> ElectionList:
        """Answer with the elections, newest first."""
        query = parse_query(request, ElectionQuery)
        search, slicer = _ElectionSearch(query), await self._context.slicer()
        for entry in self._context.entries():
            if search.is_done:
                break
            search.read(entry)
            await slicer.yield_to_loop()
        return ElectionList(meta=self._context.meta(), items=search.items())


def _terms(entries: list[RecentRecord], node_id: int) -> Iterator[Term]:
    """Yield the terms, oldest first; a term without a recorded end lasts until the next one begins."""
    begun: Term | None = None
    for entry in entries:
        record = entry.record
        assert isinstance(record, TermRecord)
        if begun is not None and (record.change in _ENDS or _begins(record)):
            if record.change == "held" and record.holder == begun.holder:
                continue  # the same term, recorded again
            why = record.reason if record.change in _ENDS and record.reason else begun.reason
            yield msgspec.structs.replace(begun, ended=iso(entry.at_ms), reason=why)
            begun = None
        if _begins(record):
            begun = _term(entry, record, node_id)
    if begun is not None:
        yield begun


def _begins(record: TermRecord) -> bool:
    return record.change in _BEGINNINGS or (record.change == "held" and record.holder != _NO_HOLDER)


def _term(entry: RecentRecord, record: TermRecord, node_id: int) -> Term:
    """Return the term that begins with a record; the record of an election names the previous holder."""
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


class _FoundRow(NamedTuple):
    """One row of a record of elections, or of their failure."""

    entry: RecentRecord
    row: int


class _ElectionSearch:
    """Reads the records from the newest to the oldest, and finds for each election the leader before it."""

    def __init__(self, query: ElectionQuery) -> None:
        self._query = query
        self._found: list[_FoundRow] = []
        self._was: dict[int, int] = {}
        """The leader before the election, by position in ``_found``."""
        self._open: dict[tuple[str, int], list[int]] = {}

    @property
    def is_done(self) -> bool:
        """Whether all elections of the answer are found, each with the leader before it."""
        return len(self._found) >= self._query.limit and not self._open

    def read(self, entry: RecentRecord) -> None:
        """Read the next older record."""
        record = entry.record
        if isinstance(record, DecisionRecord) or (
            isinstance(record, RefusedRecord) and record.what.startswith(_ELECTION)
        ):
            self._read_election(entry, record.topics, record.partitions)
        elif self._open and isinstance(record, LeadershipRecord):
            for row, tp in enumerate(zip(record.topics, record.partitions, strict=True)):
                self._was.update(dict.fromkeys(self._open.pop(tp, ()), record.leaders[row]))

    def _read_election(self, entry: RecentRecord, topics: Sequence[str], partitions: Sequence[int]) -> None:
        pattern = self._query.topic
        for row, topic in enumerate(topics):
            if len(self._found) >= self._query.limit:
                return
            if not pattern or fnmatchcase(topic, pattern):
                self._open.setdefault((topic, partitions[row]), []).append(len(self._found))
                self._found.append(_FoundRow(entry, row))

    def items(self) -> list[ElectionItem]:
        """Return the elections, newest first."""
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
            strategy=record.strategy if isinstance(record, DecisionRecord) else record.what.removeprefix(_ELECTION),
            trigger=entry.event_name,
            was=was,
            leader=decided.leaders[row] if decided is not None else None,
            unclean=decided is not None and decided.unclean[row],
            cause=record.reasons[row] if isinstance(record, RefusedRecord) else "",
        )
