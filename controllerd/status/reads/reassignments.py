"""``/v1/reassignments``: the partitions that move, how far each has come, and what it waits for."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aiohttp import web

from controllerd.core.model import NO_LEADER, TopicPartition
from controllerd.core.replica_sizes import SizesView
from controllerd.pace import Pace, sliced
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import ReassignmentRecord
from controllerd.status.answers import answer
from controllerd.status.per_topic import AT_ONCE
from controllerd.status.queries import Page, TopicGlob, asked
from controllerd.status.reads.context import Reading, reading
from controllerd.status.reads.selecting import Chosen, topics_of
from controllerd.status.reads.windows import NAMED_ONLY, Cut, Window
from controllerd.status.routing import Route
from controllerd.status.schema.work import ReassignmentItem, ReassignmentList, ReplicaProgress
from controllerd.views import ClusterView, PartitionView

_ORDER: Final = "reassignment"
_BEGINNINGS: Final = frozenset({"begun", "overridden"})


class ReassignmentQuery(Page, frozen=True, kw_only=True):
    """Which reassignments."""

    topic: TopicGlob = ""


class ReassignmentReads:
    """The list of reassignments."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/reassignments``."""
        return [
            reading(
                "/v1/reassignments",
                self.list,
                "Partitions that move, and how far each has come",
                ReassignmentList,
                query=ReassignmentQuery,
            )
        ]

    async def list(self, request: web.Request) -> web.Response:
        """A page."""
        return answer(await self.page(asked(request, ReassignmentQuery)))

    async def page(self, query: ReassignmentQuery) -> ReassignmentList:
        """:raises Refused: its cursor is not one of such a list."""
        sources, pace = self._reading.sources, await self._reading.pace()
        meta, snapshot = self._reading.meta(), sources.snapshot()
        cut = await self._select(query, snapshot, pace)
        began = await _began(tuple(sources.recent.newest_first()), cut.rows, pace)
        now_ms, sizes = sources.now_ms(), sources.replica_sizes()
        items = [
            view_reassignment(chosen, snapshot, sizes, None if tp not in began else (now_ms - began[tp]) / 1000)
            for tp, chosen in ((_tp(chosen), chosen) for chosen in cut.rows)
        ]
        return ReassignmentList(meta=meta, items=items, total=cut.total, next_cursor=cut.next_cursor)

    async def _select(self, query: ReassignmentQuery, snapshot: ClusterView, pace: Pace) -> Cut[Chosen]:
        window: Window[Chosen] = Window(_ORDER, query.limit, query.cursor)
        for topic in topics_of(snapshot, query.topic):
            counts = await self._reading.counter.of(topic, pace)
            for part in sliced(topic.partitions if counts.reassigning else (), AT_ONCE):
                moving = [view for view in part if view.assignment.is_being_reassigned]
                window.total += len(moving)
                window.add([((NAMED_ONLY, topic.name, view.partition), Chosen(topic, view)) for view in moving])
                await pace.breathe()
        return window.cut()


def _tp(chosen: Chosen) -> TopicPartition:
    return TopicPartition(chosen.topic.name, chosen.partition.partition)


async def _began(entries: Sequence[RecentRecord], rows: Sequence[Chosen], pace: Pace) -> dict[tuple[str, int], int]:
    """When these reassignments began or were changed last, as far as that is remembered."""
    wanted: set[tuple[str, int]] = set(map(_tp, rows))
    began: dict[tuple[str, int], int] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, ReassignmentRecord) and record.step in _BEGINNINGS:
            for tp in wanted.intersection(zip(record.topics, record.partitions, strict=True)):
                began.setdefault(tp, entry.at_ms)
            await pace.breathe()
    return began


class Copying(NamedTuple):
    """How far all replicas of a partition that are being added have come; None: some broker has not told."""

    percent: float | None
    bytes_left: int | None
    bytes_per_s: float | None
    eta_s: float | None


def copying(tp: TopicPartition, view: PartitionView, sizes: SizesView) -> Copying:
    """The progress of one reassignment: the slowest replica decides about its end."""
    leader = view.leadership.leader if view.leadership is not None else NO_LEADER
    adding = view.assignment.adding
    known = [size for broker in adding if (size := sizes.size(tp, broker)) is not None]
    left = [bytes_left for broker in adding if (bytes_left := sizes.bytes_left(tp, leader, broker)) is not None]
    if not adding or len(left) < len(adding):
        return Copying(None, None, None, None)
    copied, rates = sum(size.bytes for size in known), [size.bytes_per_s for size in known]
    etas = [sizes.eta_s(tp, leader, broker) for broker in adding]
    return Copying(
        percent=round(100 * copied / (copied + sum(left)), 1) if copied + sum(left) else 100.0,
        bytes_left=sum(left),
        bytes_per_s=_sum(rates),
        eta_s=_largest(etas),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _progress(tp: TopicPartition, view: PartitionView, sizes: SizesView) -> Iterator[ReplicaProgress]:
    isr = view.leadership.isr if view.leadership is not None else ()
    leader = view.leadership.leader if view.leadership is not None else NO_LEADER
    for broker in view.assignment.adding:
        size = sizes.size(tp, broker)
        yield ReplicaProgress(
            broker=broker,
            in_isr=broker in isr,
            bytes=size.bytes if size is not None else None,
            lag_bytes=sizes.bytes_left(tp, leader, broker),
        )


def view_reassignment(chosen: Chosen, snapshot: ClusterView, sizes: SizesView, age_s: float | None) -> ReassignmentItem:
    """One partition that moves, as it is published."""
    assignment, throttle = chosen.partition.assignment, snapshot.throttle
    progress = copying(_tp(chosen), chosen.partition, sizes)
    return ReassignmentItem(
        topic=chosen.topic.name,
        partition=chosen.partition.partition,
        replicas=list(assignment.replicas),
        adding=list(assignment.adding),
        removing=list(assignment.removing),
        target=list(assignment.target),
        age_s=age_s,
        percent=progress.percent,
        bytes_left=progress.bytes_left,
        bytes_per_s=progress.bytes_per_s,
        eta_seconds=progress.eta_s,
        throttle_bytes_per_s=throttle.rate if throttle is not None and _tp(chosen) in throttle.partitions else None,
        blocker=blocker_of(chosen.partition, snapshot),
        progress=list(_progress(_tp(chosen), chosen.partition, sizes)),
    )


def blocker_of(view: PartitionView, snapshot: ClusterView) -> str | None:
    """What the reassignment waits for; None when all is done but the last step."""
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
