"""``/v1/brokers`` and ``/v1/replicas``: brokers with their load and pending requests, and single replicas."""

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
from controllerd.status.http.paging import UNSORTED, Key, Page, PageBuilder
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import BROKER, IF_NONE_MATCH, ListQuery, TopicGlob, parse_query, route
from controllerd.status.reads.context import Reads
from controllerd.status.reads.counts import BrokerLoad, BrokerLoads, TopicFigures
from controllerd.status.reads.filters import BrokerFilter, topics_matching
from controllerd.status.schema.cluster import BrokerDetail, BrokerItem, BrokerList, ReplicaItem, ReplicaList
from controllerd.status.schema.status import BrokerStatus
from controllerd.status.view import view_brokers
from controllerd.views import ClusterView, PartitionView, TopicView

_PENDING: Final = 100
_NO_LOAD: Final = BrokerLoad()
_MAX_REPLICAS: Final = 1_000_000
"""Greater than the number of replicas of any partition."""
_BUILT_AT_ONCE: Final = 200
"""Partitions of one slice, after which the event loop may run."""


class ReplicaQuery(ListQuery, frozen=True, kw_only=True):
    """The query of a list of replicas."""

    topic: TopicGlob = ""
    on: Annotated[BrokerFilter | None, Meta(description="Only replicas on this broker.")] = None
    offline: Annotated[bool | None, Meta(description="Only offline replicas; false: only online ones.")] = None


class BrokerReads(Reads):
    """All brokers, single ones, and the list of replicas."""

    @route("/v1/brokers", "Brokers that are alive or have replicas", BrokerList)
    async def list_brokers(self, _request: web.Request) -> BrokerList:
        """Answer with the brokers by id."""
        items = await self.items(await self._context.slicer())
        registered = self._snapshot.node_id if self._snapshot.registered else None
        meta = self._context.meta()
        return BrokerList(meta=meta, items=list(items.values()), registered_controller=registered)

    @route("/v1/brokers/{id}", "One broker, its pending requests and last transitions", BrokerDetail, BROKER)
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
        loads = await self._context.loads.total(self._snapshot, slicer)
        snapshot = self._snapshot
        alive = {status.id: status for status in view_brokers(snapshot, self._sources)}
        led = sum(loads.get(broker, _NO_LOAD).leaders for broker in snapshot.brokers)
        mean = led / len(snapshot.brokers) if snapshot.brokers else 0.0
        return {broker: view_broker_item(broker, alive.get(broker), loads, mean) for broker in sorted({*alive, *loads})}

    @route(
        "/v1/replicas",
        "Replicas, filtered and paged by the server",
        ReplicaList,
        query=ReplicaQuery,
        extra=(IF_NONE_MATCH,),
    )
    async def list_replicas(self, request: web.Request) -> web.Response:
        """Answer with a page, or with 304 if the client has it already."""
        query = parse_query(request, ReplicaQuery)
        return await self._unless_known(request, lambda: self._page(query))

    async def _page(self, query: ReplicaQuery) -> ReplicaList:
        slicer, meta = await self._context.slicer(), self._context.meta()
        cut = await ReplicaSelection(query, self._context.loads, slicer).cut(self._snapshot)
        return ReplicaList(meta=meta, items=cut.rows, total=cut.total, next_cursor=cut.next_cursor)


def view_broker_item(
    broker: int, status: BrokerStatus | None, loads: Mapping[BrokerId, BrokerLoad], mean: float
) -> BrokerItem:
    """Return one broker in the form of the HTTP API; ``mean``: leaderships per live broker."""
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
    """Selects one page from the replicas of a snapshot; replicas on other pages are only counted, topic by topic."""

    def __init__(self, query: ReplicaQuery, loads: TopicFigures[BrokerLoads], slicer: Slicer) -> None:
        """:raises Refused: the cursor is not one of a list of replicas."""
        self._query = query
        self._loads = loads
        self._slicer = slicer
        self._window: PageBuilder[ReplicaItem] = PageBuilder("replica", query.limit, query.cursor)

    async def cut(self, snapshot: ClusterView) -> Page[ReplicaItem]:
        """Return the page."""
        for topic in topics_matching(snapshot, self._query.topic):
            number = self._number_wanted(await self._loads.of(topic, self._slicer))
            self._window.total += number
            if number:
                await self._take(topic)
            await self._slicer.yield_to_loop()
        return self._window.build()

    async def _take(self, topic: TopicView) -> None:
        for part in sliced(topic.partitions[self._start(topic) :], _BUILT_AT_ONCE):
            if self._window.is_full:
                return
            self._window.add(self._rows(topic.name, part))
            await self._slicer.yield_to_loop()

    def _start(self, topic: TopicView) -> int:
        """Return the first partition that may be on the page; earlier ones need no search."""
        after = self._window.after
        if after is None or topic.name > after[1]:
            return 0
        if topic.name < after[1]:
            return len(topic.partitions)
        return bisect_left(topic.partitions, after[2] // _MAX_REPLICAS, key=attrgetter("partition"))

    def _rows(self, topic: str, part: Sequence[PartitionView]) -> Iterator[tuple[Key, ReplicaItem]]:
        for view in part:
            for place, broker in enumerate(view.assignment.replicas):
                if self._is_wanted(view, broker):
                    yield (UNSORTED, topic, view.partition * _MAX_REPLICAS + place), view_replica(topic, view, broker)

    def _number_wanted(self, loads: BrokerLoads) -> int:
        """Return the number of matching replicas of a topic with these loads."""
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
    """Return one replica in the form of the HTTP API."""
    assignment = view.assignment
    is_online = broker not in view.offline_replicas
    kind = "adding" if broker in assignment.adding else "removing" if broker in assignment.removing else "replica"
    return ReplicaItem(
        topic=topic,
        partition=view.partition,
        broker=broker,
        state=_state(view, broker, is_online=is_online).value,
        is_leader=view.leader == broker,
        in_isr=broker in view.isr,
        is_online=is_online,
        role=kind,
    )


def _state(view: PartitionView, broker: BrokerId, *, is_online: bool) -> ReplicaState:
    """Return the state of a replica. Without known states, as in an observer: the first state in a new controller."""
    state = view.replica_states[broker]
    if state is not ReplicaState.NON_EXISTENT or view.replica_states.items():
        return state
    return ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE
