"""``/v1/reassignments``: the partitions that are being reassigned, with progress and the reason for a wait."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from aiohttp import web

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.replica_sizes import SizesView
from controllerd.explain.answers import brokers_of
from controllerd.record.records import ReassignmentRecord
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.paging import UNSORTED, Page, PageBuilder
from controllerd.status.http.routing import ListQuery, TopicGlob, parse_query, route
from controllerd.status.reads.context import Reads
from controllerd.status.reads.counts import AT_ONCE
from controllerd.status.reads.filters import ChosenPartition, topics_matching
from controllerd.status.schema.work import ReassignmentItem, ReassignmentList, ReplicaProgress
from controllerd.views import ClusterView, PartitionView

_BEGINNINGS: Final = frozenset({"begun", "overridden"})


class ReassignmentQuery(ListQuery, frozen=True, kw_only=True):
    """The query of a list of reassignments."""

    topic: TopicGlob = ""


class ReassignmentReads(Reads):
    """The list of reassignments."""

    @route(
        "/v1/reassignments",
        "Partitions that are being reassigned, with their progress",
        ReassignmentList,
        query=ReassignmentQuery,
    )
    async def list_reassignments(self, request: web.Request) -> ReassignmentList:
        """Answer with a page."""
        return await self.page(parse_query(request, ReassignmentQuery))

    async def page(self, query: ReassignmentQuery) -> ReassignmentList:
        """Return a page. :raises Refused: its cursor is not one of a list of reassignments."""
        slicer = await self._context.slicer()
        meta, snapshot = self._context.meta(), self._snapshot
        cut = await self._select(query, snapshot, slicer)
        began = await self._began({chosen.tp for chosen in cut.rows}, slicer)
        now_ms, sizes = self._sources.now_ms(), self._sources.replica_sizes()
        items = [
            view_reassignment(each, snapshot, sizes, (now_ms - began[each.tp]) / 1000 if each.tp in began else None)
            for each in cut.rows
        ]
        return ReassignmentList(meta=meta, items=items, total=cut.total, next_cursor=cut.next_cursor)

    async def _select(self, query: ReassignmentQuery, snapshot: ClusterView, slicer: Slicer) -> Page[ChosenPartition]:
        window: PageBuilder[ChosenPartition] = PageBuilder("reassignment", query.limit, query.cursor)
        for topic in topics_matching(snapshot, query.topic):
            counts = await self._context.counts.of(topic, slicer)
            for part in sliced(topic.partitions if counts.reassigning else (), AT_ONCE):
                moving = [view for view in part if view.assignment.is_being_reassigned]
                window.total += len(moving)
                window.add([((UNSORTED, topic.name, view.partition), ChosenPartition(topic, view)) for view in moving])
                await slicer.yield_to_loop()
        return window.build()

    async def _began(self, wanted: set[TopicPartition], slicer: Slicer) -> dict[tuple[str, int], int]:
        """Return the times when these reassignments began or were last changed, by the recent records."""
        began: dict[tuple[str, int], int] = {}
        for entry in self._context.entries():
            record = entry.record
            if isinstance(record, ReassignmentRecord) and record.step in _BEGINNINGS:
                for tp in wanted.intersection(zip(record.topics, record.partitions, strict=True)):
                    began.setdefault(tp, entry.at_ms)
                await slicer.yield_to_loop()
        return began


class CopyProgress(NamedTuple):
    """The progress of all replicas of a partition that are being added; None: a broker has not answered."""

    percent: float | None
    bytes_left: int | None
    bytes_per_s: float | None
    eta_s: float | None


def copy_progress(tp: TopicPartition, view: PartitionView, sizes: SizesView) -> CopyProgress:
    """Return the progress of one reassignment; the slowest replica determines its end."""
    leader, adding = view.leader, view.assignment.adding
    known = [size for broker in adding if (size := sizes.size(tp, broker)) is not None]
    left = [bytes_left for broker in adding if (bytes_left := sizes.bytes_left(tp, leader, broker)) is not None]
    if not adding or len(left) < len(adding):
        return CopyProgress(None, None, None, None)
    copied, rates = sum(size.bytes for size in known), _all_known([size.bytes_per_s for size in known])
    etas = _all_known([sizes.eta_s(tp, leader, broker) for broker in adding])
    return CopyProgress(
        percent=round(100 * copied / (copied + sum(left)), 1) if copied + sum(left) else 100.0,
        bytes_left=sum(left),
        bytes_per_s=None if rates is None else sum(rates),
        eta_s=None if etas is None else max(etas),
    )


def _all_known(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _of_replica(tp: TopicPartition, view: PartitionView, broker: BrokerId, sizes: SizesView) -> ReplicaProgress:
    size = sizes.size(tp, broker)
    return ReplicaProgress(
        broker=broker,
        in_isr=broker in view.isr,
        bytes=size.bytes if size is not None else None,
        lag_bytes=sizes.bytes_left(tp, view.leader, broker),
    )


def view_reassignment(
    chosen: ChosenPartition, snapshot: ClusterView, sizes: SizesView, age_s: float | None
) -> ReassignmentItem:
    """Return one reassignment in the form of the HTTP API."""
    tp, view, throttle = chosen.tp, chosen.partition, snapshot.throttle
    assignment, progress = view.assignment, copy_progress(tp, view, sizes)
    return ReassignmentItem(
        topic=tp.topic,
        partition=tp.partition,
        replicas=list(assignment.replicas),
        adding=list(assignment.adding),
        removing=list(assignment.removing),
        target=list(assignment.target),
        age_s=age_s,
        percent=progress.percent,
        bytes_left=progress.bytes_left,
        bytes_per_s=progress.bytes_per_s,
        eta_seconds=progress.eta_s,
        throttle_bytes_per_s=throttle.rate if throttle is not None and tp in throttle.partitions else None,
        blocker=blocker_of(view, snapshot),
        progress=[_of_replica(tp, view, broker, sizes) for broker in assignment.adding],
    )


def blocker_of(view: PartitionView, snapshot: ClusterView) -> str | None:
    """Return the reason for which the reassignment waits; None when only its last step is left."""
    if view.leader < 0:
        return "the partition has no leader, so nothing can be copied"
    missing = [broker for broker in view.assignment.target if broker not in view.isr]
    gone = [broker for broker in missing if broker not in snapshot.brokers]
    if gone:
        return f"{brokers_of(gone)} {'is' if len(gone) == 1 else 'are'} not alive"
    failed = [broker for broker in missing if broker in view.offline_replicas]
    if failed:
        return f"the replica on {brokers_of(failed)} is offline: the log directory failed, or the broker shuts down"
    return f"{brokers_of(missing)} not in the ISR yet: copying" if missing else None
