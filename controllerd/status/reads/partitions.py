"""``/v1/partitions``: which there are, how they are, and since when."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.clock import iso
from controllerd.core.model import TopicPartition
from controllerd.explain.history import transitions_of_partition
from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.partition import explain_partition
from controllerd.pace import Pace, sliced
from controllerd.status.answers import answer
from controllerd.status.problems import Refused
from controllerd.status.queries import asked
from controllerd.status.reads.changes import Change, Wanted, last_changes
from controllerd.status.reads.context import PARTITION, TOPIC, Reading, reading
from controllerd.status.reads.filters import PartitionQuery
from controllerd.status.reads.selecting import Chosen, Selection
from controllerd.status.reads.settings import Settings
from controllerd.status.routing import Route
from controllerd.status.schema.cluster import PartitionDetail, PartitionItem, PartitionList
from controllerd.status.schema.why import WhyResponse
from controllerd.views import ClusterView, PartitionView

_BUILT_AT_ONCE: Final = 200
_PENDING: Final = 20
"""Requests that are shown of each broker."""

Items = list[PartitionItem]


class PartitionReads:
    """Lists, single partitions, and why they are as they are."""

    def __init__(self, reading: Reading, settings: Settings) -> None:
        self._reading = reading
        self._settings = settings

    def routes(self) -> list[Route]:
        """All under ``/v1/partitions``."""
        one = (TOPIC, PARTITION)
        path = "/v1/partitions/{topic}/{partition}"
        return [
            reading(
                "/v1/partitions",
                self.list,
                "Partitions, filtered here and a page at a time",
                PartitionList,
                query=PartitionQuery,
                is_cached=True,
            ),
            reading(path, self.one, "One partition, and what happened to it", PartitionDetail, path_parameters=one),
            reading(f"{path}/why", self.why, "Why it is as it is, and what helps", WhyResponse, path_parameters=one),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """A page; 304 when the caller has it already."""
        query = asked(request, PartitionQuery)
        if query.needs_min_isr and not self._settings.are_known:
            detail = "min.insync.replicas of the topics is not known to this instance"
            raise Refused(HTTPStatus.CONFLICT, "min_isr_unknown", detail, "ask the active controller")
        return await self._reading.cached(request, lambda: self.page(query), self._settings.version)

    async def page(self, query: PartitionQuery) -> PartitionList:
        """:raises Refused: its cursor is not one of such a list."""
        pace = await self._reading.pace()
        snapshot, meta = self._reading.sources.snapshot(), self._reading.meta()
        known = await self._settings.min_isr_of(list(snapshot.topics)) if query.needs_min_isr else {}
        cut = await Selection(query, self._reading.counter, pace).cut(snapshot, known)
        names = {chosen.topic.name for chosen in cut.rows}
        min_isr = {**await self._settings.min_isr_of(names - known.keys()), **known}
        items = await self._items(cut.rows, min_isr, pace)
        return PartitionList(meta=meta, items=items, total=cut.total, next_cursor=cut.next_cursor)

    async def one(self, request: web.Request) -> web.Response:
        """With what happened to it, and what waits for the brokers of its replicas."""
        (tp, view), pace = self._named(request), await self._reading.pace()
        inputs = await self._settings.inputs([tp.topic])
        item = await self._item(tp, view, inputs, pace)
        transitions = await pace.run(transitions_of_partition(inputs.entries, tp))
        pending = [each for broker in view.assignment.replicas for each in self._reading.pending(broker, _PENDING)]
        detail = PartitionDetail(meta=self._reading.meta(), partition=item, transitions=transitions, pending=pending)
        return answer(detail)

    async def why(self, request: web.Request) -> web.Response:
        """Also of a partition that does not exist: then that is the answer."""
        tp, pace = _tp(request), await self._reading.pace()
        inputs = await self._settings.inputs([tp.topic])
        view = inputs.snapshot.partition(tp)
        response = WhyResponse(
            meta=self._reading.meta(),
            why=await pace.run(explain_partition(inputs, tp)),
            partition=await self._item(tp, view, inputs, pace) if view is not None else None,
            transitions=await pace.run(transitions_of_partition(inputs.entries, tp)),
        )
        return answer(response)

    def _named(self, request: web.Request) -> tuple[TopicPartition, PartitionView]:
        tp = _tp(request)
        topic = self._reading.topic(tp.topic)
        view = self._reading.sources.snapshot().partition(tp)
        if view is None:
            detail = f"topic {tp.topic} has no partition {tp.partition}, it has {len(topic.partitions)}"
            hint = f"GET /v1/partitions?topic={tp.topic} lists them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_partition", detail, hint)
        return tp, view

    async def _item(
        self, tp: TopicPartition, view: PartitionView, inputs: ExplanationInputs, pace: Pace
    ) -> PartitionItem:
        wanted = Wanted()
        wanted.add(*tp)
        changes = await last_changes(inputs.entries, wanted, pace)
        reason = _quarantined(inputs.snapshot, tp)
        return view_partition(tp, view, changes.of(tp), inputs.min_isr(tp.topic), reason)

    async def _items(self, rows: Sequence[Chosen], min_isr: Mapping[str, int], pace: Pace) -> Items:
        wanted = Wanted()
        for part in sliced(rows, _BUILT_AT_ONCE):
            for topic, partition in part:
                wanted.add(topic.name, partition.partition)
            await pace.breathe()
        changes = await last_changes(tuple(self._reading.sources.recent.newest_first()), wanted, pace)
        snapshot, items = self._reading.sources.snapshot(), Items()
        for part in sliced(rows, _BUILT_AT_ONCE):
            for topic, partition in part:
                tp = TopicPartition(topic.name, partition.partition)
                reason = _quarantined(snapshot, tp)
                items.append(view_partition(tp, partition, changes.of(tp), min_isr.get(tp.topic), reason))
            await pace.breathe()
        return items


def _tp(request: web.Request) -> TopicPartition:
    return TopicPartition(request.match_info["topic"], int(request.match_info["partition"]))


def _quarantined(snapshot: ClusterView, tp: TopicPartition) -> str | None:
    found = snapshot.quarantine_of(*tp) if snapshot.quarantine else None
    return None if found is None else found[1]


def view_partition(
    tp: TopicPartition, view: PartitionView, change: Change, min_isr: int | None, reason: str | None
) -> PartitionItem:
    """One partition as it is published. ``reason``: why it is in quarantine."""
    assignment, leadership = view.assignment, view.leadership
    return PartitionItem(
        topic=tp.topic,
        partition=tp.partition,
        state=view.state.value,
        leader=None if leadership is None else leadership.leader,
        leader_epoch=None if leadership is None else leadership.leader_epoch,
        isr=() if leadership is None else leadership.isr,
        replicas=assignment.replicas,
        adding=assignment.adding,
        removing=assignment.removing,
        offline=view.offline_replicas,
        zk_version=None if leadership is None else leadership.partition_epoch,
        preferred=assignment.replicas[0] if assignment.replicas else None,
        min_isr=min_isr,
        since=None if change.since is None else iso(change.since.at_ms),
        last_event=None if change.last is None else change.last.event,
        quarantine=reason,
    )
