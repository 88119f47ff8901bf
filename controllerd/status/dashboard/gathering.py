"""The state that the page shows, gathered once for all browsers that request it at the same time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controllerd.slicer import Slicer, loop_time
from controllerd.status.dashboard.cards import Notice, Tile, knows_partitions, notices_of, tiles_of
from controllerd.status.dashboard.issues import Headline, PartitionIssues, headline_of
from controllerd.status.reads.api import ReadApi
from controllerd.status.reads.events import view_entry
from controllerd.status.reads.reassignments import ReassignmentQuery
from controllerd.status.schema.cluster import BrokerItem
from controllerd.status.schema.common import Meta
from controllerd.status.schema.history import Happening
from controllerd.status.schema.status import Status
from controllerd.status.schema.work import DeletionItem, QueueList, ReassignmentItem, ReassignmentList
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_meta, view_status
from controllerd.views import ClusterView

FRESH_S: Final = 0.2
"""Requests within this time get the same state, so that many browsers cost no more than one."""
AGES_MS: Final = 10_000
"""The page changes this often for its ages alone; in between, the browser counts them up."""
EVENTS: Final = 50
_SEARCHED: Final = 2_000
_QUEUE: Final = 12
_MOVES: Final = 20
_DELETIONS: Final = 50

CHANGES: Final = (
    *("alarm", "admin", "brokers", "term", "session", "topics", "topics_forgotten", "deletion", "reassignment"),
    *("decision", "leadership", "refused", "offline_dirs", "quarantine", "rejected", "debt", "gap", "assignment"),
)
"""The kinds of records that are shown unless the browser requests others."""
KIND_GROUPS: Final = {
    "Changes": ",".join(CHANGES),
    "Elections": "decision,leadership,refused",
    "Brokers": "brokers,offline_dirs,session,term",
    "Events of the queue": "event_begin,event_end,reply",
    "Requests to brokers": "request,response",
    "ZooKeeper": "zk,quarantine,rejected",
    "Alarms": "alarm,gap",
    "Everything": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardState:
    """All values of the page at one moment."""

    tag: str
    now_ms: int
    meta: Meta
    status: Status
    knows_partitions: bool
    """Whether this instance knows the partitions."""
    headline: Headline
    tiles: Sequence[Tile]
    notices: Sequence[Notice]
    brokers: Sequence[BrokerItem]
    queue: QueueList
    reassignments: ReassignmentList
    deletions: Sequence[DeletionItem]
    happenings: Sequence[Happening]
    """Newest first."""
    last_id: str
    """The stream of events continues after this id."""

    @property
    def most_leaders(self) -> int:
        """The number that the longest bar shows."""
        return max((max(each.leaders, each.preferred_leaders) for each in self.brokers), default=0)


class DashboardGatherer:
    """Gathers the state, and keeps the newest one."""

    def __init__(self, sources: StatusSources, reads: ReadApi) -> None:
        self._sources = sources
        self._reads = reads
        self._issues = PartitionIssues(reads.context)
        self._lock = asyncio.Lock()
        self._state: DashboardState | None = None
        self._gathered_at = 0.0

    async def state(self) -> DashboardState:
        """Return the present state, at most ``FRESH_S`` old unless nothing changed."""
        async with self._lock:
            known, is_fresh = self._state, loop_time() - self._gathered_at < FRESH_S
            if known is not None and (is_fresh or known.tag == self._tag()):
                return known
            self._gathered_at = loop_time()
            self._state = await self._gather()
            return self._state

    def _tag(self) -> str:
        """Return an ETag that changes with the content of the page; ages count in steps."""
        sources, worker = self._sources, self._sources.worker()
        what = (
            *(sources.recent.newest, len(sources.queue), worker.number, worker.event, sources.session()),
            *(sources.audit().trouble, tuple(sources.channels().items()), sources.now_ms() // AGES_MS),
            *(sources.snapshot().reason, sources.snapshot().holder),
        )
        return self._reads.context.tag(f"{hash(what) & (2**64 - 1):x}")

    async def _gather(self) -> DashboardState:
        sources, reads, slicer = self._sources, self._reads, await self._reads.context.slicer()
        tag, snapshot = self._tag(), sources.snapshot()
        counts = await reads.context.counts.total(snapshot, slicer)
        status = view_status(sources, counts).status
        await slicer.yield_to_loop()
        moves = await reads.reassignments.page(ReassignmentQuery(limit=_MOVES))
        headline = await headline_of(reads.context, self._issues, status, _blocked(moves.items, snapshot), slicer)
        brokers = list((await reads.brokers.items(slicer)).values())
        happenings = await self._happenings(slicer)
        return DashboardState(
            tag=tag,
            now_ms=sources.now_ms(),
            meta=view_meta(sources),
            status=status,
            knows_partitions=knows_partitions(status),
            headline=headline,
            tiles=tiles_of(status),
            notices=notices_of(snapshot, status, sources.recent, sources.now_ms()),
            brokers=brokers,
            queue=reads.queue.page(_QUEUE),
            reassignments=moves,
            deletions=reads.topics.deletions()[:_DELETIONS],
            happenings=happenings,
            last_id=happenings[0].id if happenings else f"{sources.recent.boot}.{sources.recent.newest}",
        )

    async def _happenings(self, slicer: Slicer) -> list[Happening]:
        recent, found = self._sources.recent, list[Happening]()
        wanted, entries = frozenset(CHANGES), recent.after(recent.newest - _SEARCHED, _SEARCHED)
        for entry in reversed(entries):
            if entry.record.kind in wanted:
                found.append(view_entry(recent, entry))
                await slicer.yield_to_loop()
                if len(found) == EVENTS:
                    break
        return found


def _blocked(moves: Sequence[ReassignmentItem], snapshot: ClusterView) -> list[str]:
    """Return the reassignments that wait for a broker that is not live."""
    alive = {int(broker) for broker in snapshot.brokers}
    return [
        f"{move.topic}-{move.partition}: {move.blocker}"
        for move in moves
        if move.blocker is not None and not alive.issuperset(move.target)
    ]
