"""``/v1/replicas``: every replica of the partitions that a caller asks for."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.pace import Pace, sliced
from controllerd.status.queries import Page, TopicGlob, asked
from controllerd.status.reads.context import Reading, reading
from controllerd.status.reads.filters import BrokerNumber
from controllerd.status.reads.loads import Loads, LoadTally
from controllerd.status.reads.selecting import topics_of
from controllerd.status.reads.windows import NAMED_ONLY, Cut, Key, Window
from controllerd.status.routing import Route
from controllerd.status.schema.cluster import ReplicaItem, ReplicaList
from controllerd.views import ClusterView, PartitionView, TopicView

_ORDER: Final = "replica"


class ReplicaQuery(Page, frozen=True, kw_only=True):
    """Which replicas."""

    topic: TopicGlob = ""
    on: Annotated[BrokerNumber | None, Meta(description="Only those on this broker.")] = None
    offline: Annotated[bool | None, Meta(description="Only those that are not online; false: that are.")] = None


class ReplicaReads:
    """The list of replicas."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/replicas``."""
        return [
            reading(
                "/v1/replicas",
                self.list,
                "Replicas, filtered here and a page at a time",
                ReplicaList,
                query=ReplicaQuery,
                is_cached=True,
            )
        ]

    async def list(self, request: web.Request) -> web.Response:
        """A page; 304 when the caller has it already."""
        query = asked(request, ReplicaQuery)
        return await self._reading.cached(request, lambda: self._page(query))

    async def _page(self, query: ReplicaQuery) -> ReplicaList:
        pace = await self._reading.pace()
        meta = self._reading.meta()
        cut = await ReplicaWalk(query, self._reading.tally, pace).cut(self._reading.sources.snapshot())
        return ReplicaList(meta=meta, items=cut.rows, total=cut.total, next_cursor=cut.next_cursor)


class ReplicaWalk:
    """Gathers one page; what is on others is only counted, topic by topic."""

    def __init__(self, query: ReplicaQuery, tally: LoadTally, pace: Pace) -> None:
        """:raises Refused: the cursor is not one of such a list."""
        self._query = query
        self._tally = tally
        self._pace = pace
        self._window: Window[ReplicaItem] = Window(_ORDER, query.limit, query.cursor)

    async def cut(self, snapshot: ClusterView) -> Cut[ReplicaItem]:
        """The page."""
        for topic in topics_of(snapshot, self._query.topic):
            number = _number_wanted(self._query, await self._tally.of(topic, self._pace))
            self._window.total += number
            if number:
                await self._take(topic)
            await self._pace.breathe()
        return self._window.cut()

    async def _take(self, topic: TopicView) -> None:
        for part in sliced(topic.partitions[self._start(topic) :], _BUILT_AT_ONCE):
            if self._window.is_full:
                return
            self._window.add(self._rows(topic.name, part))
            await self._pace.breathe()

    def _start(self, topic: TopicView) -> int:
        """The first partition that may be on the page; those before it need not be looked at."""
        after = self._window.after
        if after is None or topic.name > after[1]:
            return 0
        if topic.name < after[1]:
            return len(topic.partitions)
        return bisect_left(topic.partitions, after[2] // _PLACES, key=_partition)

    def _rows(self, topic: str, part: Sequence[PartitionView]) -> Iterator[tuple[Key, ReplicaItem]]:
        for view in part:
            for place, broker in enumerate(view.assignment.replicas):
                if _is_wanted(self._query, view, broker):
                    yield (NAMED_ONLY, topic, view.partition * _PLACES + place), view_replica(topic, view, broker)


def _number_wanted(query: ReplicaQuery, loads: Loads) -> int:
    """How many replicas of a topic with these loads match."""
    asked_for = loads.values() if query.on is None else filter(None, [loads.get(BrokerId(query.on))])
    if query.offline is None:
        return sum(load.replicas for load in asked_for)
    return sum(load.offline if query.offline else load.replicas - load.offline for load in asked_for)


def _is_wanted(query: ReplicaQuery, view: PartitionView, broker: BrokerId) -> bool:
    if query.on is not None and query.on != broker:
        return False
    return query.offline is None or query.offline is (broker in view.offline_replicas)


_PLACES: Final = 1_000_000
"""More than a partition has replicas."""
_BUILT_AT_ONCE: Final = 200
"""Partitions whose replicas are looked at before the event loop may have a turn."""

_partition = attrgetter("partition")


def view_replica(topic: str, view: PartitionView, broker: BrokerId) -> ReplicaItem:
    """One replica as it is published."""
    assignment, leadership = view.assignment, view.leadership
    is_online = broker not in view.offline_replicas
    kind = "adding" if broker in assignment.adding else "removing" if broker in assignment.removing else "replica"
    return ReplicaItem(
        topic=topic,
        partition=view.partition,
        broker=broker,
        state=_state(view, broker, is_online=is_online).value,
        is_leader=leadership is not None and leadership.leader == broker,
        in_isr=leadership is not None and broker in leadership.isr,
        is_online=is_online,
        role=kind,
    )


def _state(view: PartitionView, broker: BrokerId, *, is_online: bool) -> ReplicaState:
    """Where nobody keeps the states of replicas, they are what a controller would begin with."""
    state = view.replica_states[broker]
    if state is not ReplicaState.NON_EXISTENT or view.replica_states.items():
        return state
    return ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE
