"""``/v1/reassignments``: the partitions that move, how far each has come, and what it waits for."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from aiohttp import web

from controllerd.core.model import NO_LEADER, BrokerId, TopicPartition
from controllerd.core.replica_sizes import SizesView
from controllerd.record.records import ReassignmentRecord
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.paging import UNSORTED, CutPage, Window
from controllerd.status.http.routing import Page, TopicGlob, asked, route
from controllerd.status.reads.context import Reads
from controllerd.status.reads.counts import AT_ONCE
from controllerd.status.reads.filters import ChosenPartition, topics_matching
from controllerd.status.schema.work import ReassignmentItem, ReassignmentList, ReplicaProgress
from controllerd.views import ClusterView, PartitionView

_BEGINNINGS: Final = frozenset({"begun", "overridden"})


class ReassignmentQuery(Page, frozen=True, kw_only=True):
    """Which reassignments."""

    topic: TopicGlob = ""


class ReassignmentReads(Reads):
    """The list of reassignments."""

    @route(
        "/v1/reassignments",
        "Partitions that move, and how far each has come",
        ReassignmentList,
        query=ReassignmentQuery,
    )
    async def list_reassignments(self, request: web.Request) -> ReassignmentList:
        """Answer with a page."""
        return await self.page(asked(request, ReassignmentQuery))

    async def page(self, query: ReassignmentQuery) -> ReassignmentList:
        """Return a page. :raises Refused: its cursor is not one of such a list."""
        slicer = await self._context.slicer()
        meta, snapshot = self._context.meta(), self._snapshot
        cut = await self._select(query, snapshot, slicer)
        began = await self._began({_tp(chosen) for chosen in cut.rows}, slicer)
        now_ms, sizes = self._sources.now_ms(), self._sources.replica_sizes()
        items = [
            view_reassignment(chosen, snapshot, sizes, None if tp not in began else (now_ms - began[tp]) / 1000)
            for tp, chosen in ((_tp(chosen), chosen) for chosen in cut.rows)
        ]
        return ReassignmentList(meta=meta, items=items, total=cut.total, next_cursor=cut.next_cursor)

    async def _select(
        self, query: ReassignmentQuery, snapshot: ClusterView, slicer: Slicer
    ) -> CutPage[ChosenPartition]:
        window: Window[ChosenPartition] = Window("reassignment", query.limit, query.cursor)
        for topic in topics_matching(snapshot, query.topic):
            counts = await self._context.counter.of(topic, slicer)
            for part in sliced(topic.partitions if counts.reassigning else (), AT_ONCE):
                moving = [view for view in part if view.assignment.is_being_reassigned]
                window.total += len(moving)
                window.add([((UNSORTED, topic.name, view.partition), ChosenPartition(topic, view)) for view in moving])
                await slicer.yield_to_loop()
        return window.cut()

    async def _began(self, wanted: set[TopicPartition], slicer: Slicer) -> dict[tuple[str, int], int]:
        """Return when these reassignments began or were changed last, by the recent records."""
        began: dict[tuple[str, int], int] = {}
        for entry in self._context.entries():
            record = entry.record
            if isinstance(record, ReassignmentRecord) and record.step in _BEGINNINGS:
                for tp in wanted.intersection(zip(record.topics, record.partitions, strict=True)):
                    began.setdefault(tp, entry.at_ms)
                await slicer.yield_to_loop()
        return began


def _tp(chosen: ChosenPartition) -> TopicPartition:
    return TopicPartition(chosen.topic.name, chosen.partition.partition)


class CopyProgress(NamedTuple):
    """How far all replicas of a partition that are being added have come; None: some broker has not told."""

    percent: float | None
    bytes_left: int | None
    bytes_per_s: float | None
    eta_s: float | None


def copy_progress(tp: TopicPartition, view: PartitionView, sizes: SizesView) -> CopyProgress:
    """Return the progress of one reassignment: the slowest replica decides about its end."""
    leader, adding = _leader(view), view.assignment.adding
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


def _leader(view: PartitionView) -> BrokerId:
    return view.leadership.leader if view.leadership is not None else NO_LEADER


def _all_known(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _of_replica(tp: TopicPartition, view: PartitionView, broker: BrokerId, sizes: SizesView) -> ReplicaProgress:
    size = sizes.size(tp, broker)
    return ReplicaProgress(
        broker=broker,
        in_isr=view.leadership is not None and broker in view.leadership.isr,
        bytes=size.bytes if size is not None else None,
        lag_bytes=sizes.bytes_left(tp, _leader(view), broker),
    )


def view_reassignment(
    chosen: ChosenPartition, snapshot: ClusterView, sizes: SizesView, age_s: float | None
) -> ReassignmentItem:
    """Return one partition that moves, as it is published."""
    tp, view, throttle = _tp(chosen), chosen.partition, snapshot.throttle
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
    """Return what the reassignment waits for; None when only its last step is left."""
    leadership = view.leadership
    if leadership is None or leadership.leader < 0:
        return "nobody leads the partition, so nothing can be copied"
    missing = [broker for broker in view.assignment.target if broker not in leadership.isr]
    gone = [broker for broker in missing if broker not in snapshot.brokers]
    if gone:
        return f"{_named(gone)} {'is' if len(gone) == 1 else 'are'} not alive"
    failed = [broker for broker in missing if broker in view.offline_replicas]
    if failed:
        return f"the replica on {_named(failed)} is offline: the log directory failed, or the broker shuts down"
    return f"{_named(missing)} not in the ISR yet: copying" if missing else None


def _named(brokers: Sequence[int]) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(map(str, brokers))}"
