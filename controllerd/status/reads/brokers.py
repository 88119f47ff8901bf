"""``/v1/brokers`` and ``/v1/replicas``: live brokers, their load, what waits for each, and every single replica."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from operator import attrgetter
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.explain.history import transitions_of_broker
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.paging import UNSORTED, CutPage, Key, Window
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import BROKER, IF_NONE_MATCH, Page, TopicGlob, asked, route
from controllerd.status.reads.context import Reads
from controllerd.status.reads.counts import Load, LoadCounter, Loads
from controllerd.status.reads.filters import BrokerFilter, topics_matching
from controllerd.status.schema.cluster import BrokerDetail, BrokerItem, BrokerList, ReplicaItem, ReplicaList
from controllerd.status.schema.status import BrokerStatus
from controllerd.status.view import view_brokers
from controllerd.views import ClusterView, PartitionView, TopicView

_PENDING: Final = 100
_NO_LOAD: Final = Load()
_PLACES: Final = 1_000_000
"""More than a partition has replicas."""
_BUILT_AT_ONCE: Final = 200
"""Partitions whose replicas are looked at before the event loop may have a turn."""


class ReplicaQuery(Page, frozen=True, kw_only=True):
    """Which replicas."""

    topic: TopicGlob = ""
    on: Annotated[BrokerFilter | None, Meta(description="Only those on this broker.")] = None
    offline: Annotated[bool | None, Meta(description="Only those that are not online; false: that are.")] = None


class BrokerReads(Reads):
    """All brokers, single ones, and the list of replicas."""

    @route("/v1/brokers", "Brokers that live, or have replicas", BrokerList)
    async def list_brokers(self, _request: web.Request) -> BrokerList:
        """Answer with the brokers by id."""
        items = await self.items(await self._context.slicer())
        registered = self._snapshot.node_id if self._snapshot.registered else None
        meta = self._context.meta()
        return BrokerList(meta=meta, items=list(items.values()), registered_controller=registered)

    @route("/v1/brokers/{id}", "One broker, what waits for it, and what happened to it", BrokerDetail, BROKER)
    async def broker(self, request: web.Request) -> BrokerDetail:
        """Answer with one broker. :raises Refused: it is neither registered nor in any assignment."""
        broker, slicer = BrokerId(int(request.match_info["id"])), await self._context.slicer()
        item = (await self.items(slicer)).get(broker)
        if item is None:
            detail = f"broker {broker} is not registered, and no replica is assigned to it"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_broker", detail, "GET /v1/brokers lists the known ones")
        transitions = await slicer.run(transitions_of_broker(self._context.entries(), broker))
        pending = self._context.pending(broker, _PENDING)
        return BrokerDetail(meta=self._context.meta(), broker=item, pending=pending, transitions=transitions)

    async def items(self, slicer: Slicer) -> dict[int, BrokerItem]:
        """Return the brokers that are live or have replicas, in order of their ids."""
        loads = await self._context.load_counter.loads(self._snapshot, slicer)
        snapshot = self._snapshot
        alive = {status.id: status for status in view_brokers(snapshot, self._sources)}
        led = sum(loads.get(broker, _NO_LOAD).leaders for broker in snapshot.brokers)
        mean = led / len(snapshot.brokers) if snapshot.brokers else 0.0
        return {broker: view_broker_item(broker, alive.get(broker), loads, mean) for broker in sorted({*alive, *loads})}

    @route(
        "/v1/replicas",
        "Replicas, filtered here and a page at a time",
        ReplicaList,
        query=ReplicaQuery,
        extra=(IF_NONE_MATCH,),
    )
    async def list_replicas(self, request: web.Request) -> web.Response:
        """Answer with a page; with 304 when the client has it already."""
        query = asked(request, ReplicaQuery)
        return await self._unless_known(request, lambda: self._page(query))

    async def _page(self, query: ReplicaQuery) -> ReplicaList:
        slicer, meta = await self._context.slicer(), self._context.meta()
        cut = await ReplicaSelection(query, self._context.load_counter, slicer).cut(self._snapshot)
        return ReplicaList(meta=meta, items=cut.rows, total=cut.total, next_cursor=cut.next_cursor)


def view_broker_item(
    broker: int, status: BrokerStatus | None, loads: Mapping[BrokerId, Load], mean: float
) -> BrokerItem:
    """Return one broker as it is published; ``mean``: leaderships per live broker."""
    load = loads.get(BrokerId(broker), _NO_LOAD)
    imbalance = load.led_by_others / load.preferred if load.preferred else 0.0
    skew = (load.leaders - mean) / mean if mean else 0.0
    return BrokerItem(
        id=broker,
        alive=status is not None,
        status=status,
        leaders=load.leaders,
        preferred_leaders=load.preferred,
        replicas=load.replicas,
        offline_replicas=load.offline,
        imbalance_percent=round(100 * imbalance, 2),
        leader_skew_percent=round(100 * skew, 2),
    )


class ReplicaSelection:
    """One walk over the replicas of a snapshot for one page; other pages are only counted, topic by topic."""

    def __init__(self, query: ReplicaQuery, load_counter: LoadCounter, slicer: Slicer) -> None:
        """:raises Refused: the cursor is not one of such a list."""
        self._query = query
        self._load_counter = load_counter
        self._slicer = slicer
        self._window: Window[ReplicaItem] = Window("replica", query.limit, query.cursor)

    async def cut(self, snapshot: ClusterView) -> CutPage[ReplicaItem]:
        """Return the page."""
        for topic in topics_matching(snapshot, self._query.topic):
            number = self._number_wanted(await self._load_counter.of(topic, self._slicer))
            self._window.total += number
            if number:
                await self._take(topic)
            await self._slicer.yield_to_loop()
        return self._window.cut()

    async def _take(self, topic: TopicView) -> None:
        for part in sliced(topic.partitions[self._start(topic) :], _BUILT_AT_ONCE):
            if self._window.is_full:
                return
            self._window.add(self._rows(topic.name, part))
            await self._slicer.yield_to_loop()

    def _start(self, topic: TopicView) -> int:
        """Return the first partition that may be on the page; earlier ones need not be looked at."""
        after = self._window.after
        if after is None or topic.name > after[1]:
            return 0
        if topic.name < after[1]:
            return len(topic.partitions)
        return bisect_left(topic.partitions, after[2] // _PLACES, key=attrgetter("partition"))

    def _rows(self, topic: str, part: Sequence[PartitionView]) -> Iterator[tuple[Key, ReplicaItem]]:
        for view in part:
            for place, broker in enumerate(view.assignment.replicas):
                if self._is_wanted(view, broker):
                    yield (UNSORTED, topic, view.partition * _PLACES + place), view_replica(topic, view, broker)

    def _number_wanted(self, loads: Loads) -> int:
        """Return how many replicas of a topic with these loads match."""
        query = self._query
        wanted = loads.values() if query.on is None else filter(None, [loads.get(BrokerId(query.on))])
        if query.offline is None:
            return sum(load.replicas for load in wanted)
        return sum(load.offline if query.offline else load.replicas - load.offline for load in wanted)

    def _is_wanted(self, view: PartitionView, broker: BrokerId) -> bool:
        query = self._query
        if query.on is not None and query.on != broker:
            return False
        return query.offline is None or query.offline is (broker in view.offline_replicas)


def view_replica(topic: str, view: PartitionView, broker: BrokerId) -> ReplicaItem:
    """Return one replica as it is published."""
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
    """Return the state; an instance that keeps no replica states shows those that a controller would begin with."""
    state = view.replica_states[broker]
    if state is not ReplicaState.NON_EXISTENT or view.replica_states.items():
        return state
    return ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE
