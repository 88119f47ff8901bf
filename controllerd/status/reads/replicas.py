"""``/v1/replicas``: every replica of the partitions that a caller asks for."""

from collections.abc import Iterator
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.pace import Pace, sliced
from controllerd.snapshot import ClusterSnapshot, PartitionView
from controllerd.status.per_topic import AT_ONCE
from controllerd.status.queries import Page, TopicGlob, asked
from controllerd.status.reads.context import Reading, reading
from controllerd.status.reads.filters import BrokerNumber
from controllerd.status.reads.selecting import topics_of
from controllerd.status.reads.windows import Cut, Key, Window
from controllerd.status.routing import Route
from controllerd.status.schema.cluster import ReplicaItem, ReplicaList

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
        meta = self._reading.meta()
        cut = await _select(self._reading.sources.snapshot(), query, Pace())
        return ReplicaList(meta=meta, items=cut.rows, total=cut.total, next_cursor=cut.next_cursor)


async def _select(snapshot: ClusterSnapshot, query: ReplicaQuery, pace: Pace) -> Cut[ReplicaItem]:
    window: Window[ReplicaItem] = Window(_ORDER, query.limit, query.cursor)
    for topic in topics_of(snapshot, query.topic):
        for part in sliced(topic.partitions, AT_ONCE):
            rows = [
                (_key(topic.name, view, place), view, broker)
                for view in part
                for place, broker in enumerate(view.assignment.replicas)
                if _is_wanted(query, view, broker)
            ]
            window.total += len(rows)
            if not window.is_full:
                window.add(_items(topic.name, rows, window))
            await pace.breathe()
    return window.cut()


def _is_wanted(query: ReplicaQuery, view: PartitionView, broker: BrokerId) -> bool:
    if query.on is not None and query.on != broker:
        return False
    return query.offline is None or query.offline is (broker in view.offline_replicas)


def _key(topic: str, view: PartitionView, place: int) -> Key:
    return 0, topic, view.partition * _PLACES + place


_PLACES: Final = 1_000_000
"""More than a partition has replicas."""


def _items(
    topic: str, rows: list[tuple[Key, PartitionView, BrokerId]], window: Window[ReplicaItem]
) -> Iterator[tuple[Key, ReplicaItem]]:
    for key, view, broker in rows:
        if window.after is None or key > window.after:
            yield key, view_replica(topic, view, broker)


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
