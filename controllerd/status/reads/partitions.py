"""``/v1/partitions``: lists of partitions, single partitions with their transitions, and explanations."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.clock import iso
from controllerd.core.model import TopicPartition
from controllerd.explain.history import transitions_of_partition
from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.partition import explain_partition
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import IF_NONE_MATCH, PARTITION, TOPIC, parse_query, route
from controllerd.status.reads.changes import LastChange, WantedPartitions, last_changes
from controllerd.status.reads.context import Reads
from controllerd.status.reads.filters import ChosenPartition, PartitionQuery, PartitionSelection
from controllerd.status.schema.cluster import PartitionDetail, PartitionItem, PartitionList, WhyResponse
from controllerd.views import ClusterView, PartitionView

_BUILT_AT_ONCE: Final = 200
_PENDING: Final = 20
"""The number of pending requests that are shown for each broker."""
_PATH: Final = "/v1/partitions/{topic}/{partition}"


class PartitionReads(Reads):
    """Lists of partitions, single partitions, and explanations of their condition."""

    @route(
        "/v1/partitions",
        "Partitions, filtered and paged by the server",
        PartitionList,
        query=PartitionQuery,
        extra=(IF_NONE_MATCH,),
    )
    async def list_partitions(self, request: web.Request) -> web.Response:
        """Answer with a page, or with 304 if the client has it already."""
        query = parse_query(request, PartitionQuery)
        if query.needs_min_isr and self._sources.settings is None:
            detail = "min.insync.replicas of the topics is not known to this instance"
            raise Refused(HTTPStatus.CONFLICT, "min_isr_unknown", detail, "ask the active controller")
        return await self._unless_known(request, lambda: self.page(query), self._context.settings_version)

    async def page(self, query: PartitionQuery) -> PartitionList:
        """Return one page. :raises Refused: its cursor is not one of a list of partitions in this order."""
        slicer = await self._context.slicer()
        snapshot, meta = self._sources.snapshot(), self._context.meta()
        known = await self._context.min_isr_of(list(snapshot.topics)) if query.needs_min_isr else {}
        cut = await PartitionSelection(query, self._context.counts, slicer).cut(snapshot, known)
        names = {chosen.topic.name for chosen in cut.rows}
        min_isr = {**await self._context.min_isr_of(names - known.keys()), **known}
        items = await self._items(cut.rows, min_isr, slicer)
        return PartitionList(meta=meta, items=items, total=cut.total, next_cursor=cut.next_cursor)

    @route(_PATH, "One partition, and its last transitions", PartitionDetail, TOPIC, PARTITION)
    async def partition(self, request: web.Request) -> PartitionDetail:
        """Answer with a partition, its last transitions, and the pending requests to the brokers of its replicas."""
        (tp, view), slicer = self._named(request), await self._context.slicer()
        inputs = await self._context.inputs(tp.topic)
        return PartitionDetail(
            meta=self._context.meta(),
            partition=await self._item(tp, view, inputs, slicer),
            transitions=await slicer.run(transitions_of_partition(inputs.entries, tp)),
            pending=[each for broker in view.assignment.replicas for each in self._context.pending(broker, _PENDING)],
        )

    @route(f"{_PATH}/why", "Explanation of its condition, with next steps", WhyResponse, TOPIC, PARTITION)
    async def why(self, request: web.Request) -> WhyResponse:
        """Answer with an explanation, also for a partition that does not exist."""
        tp, slicer = _named_in(request), await self._context.slicer()
        inputs = await self._context.inputs(tp.topic)
        view = inputs.snapshot.partition(tp)
        return WhyResponse(
            meta=self._context.meta(),
            why=await slicer.run(explain_partition(inputs, tp)),
            partition=await self._item(tp, view, inputs, slicer) if view is not None else None,
            transitions=await slicer.run(transitions_of_partition(inputs.entries, tp)),
        )

    def _named(self, request: web.Request) -> tuple[TopicPartition, PartitionView]:
        tp = _named_in(request)
        topic = self._context.topic(tp.topic)
        view = self._sources.snapshot().partition(tp)
        if view is None:
            detail = f"topic {tp.topic} has no partition {tp.partition}, it has {len(topic.partitions)}"
            hint = f"GET /v1/partitions?topic={tp.topic} lists them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_partition", detail, hint)
        return tp, view

    async def _item(
        self, tp: TopicPartition, view: PartitionView, inputs: ExplanationInputs, slicer: Slicer
    ) -> PartitionItem:
        wanted = WantedPartitions()
        wanted.add(*tp)
        change = (await last_changes(inputs.entries, wanted, slicer)).of(tp)
        return view_partition(tp, view, change, inputs.min_isr(tp.topic), _quarantined(inputs.snapshot, tp))

    async def _items(
        self, rows: Sequence[ChosenPartition], min_isr: Mapping[str, int], slicer: Slicer
    ) -> list[PartitionItem]:
        wanted = WantedPartitions()
        for part in sliced(rows, _BUILT_AT_ONCE):
            for chosen in part:
                wanted.add(*chosen.tp)
            await slicer.yield_to_loop()
        changes = await last_changes(self._context.entries(), wanted, slicer)
        snapshot = self._sources.snapshot()
        items = []
        for part in sliced(rows, _BUILT_AT_ONCE):
            for chosen in part:
                tp, reason = chosen.tp, _quarantined(snapshot, chosen.tp)
                items.append(view_partition(tp, chosen.partition, changes.of(tp), min_isr.get(tp.topic), reason))
            await slicer.yield_to_loop()
        return items


def _named_in(request: web.Request) -> TopicPartition:
    return TopicPartition(request.match_info["topic"], int(request.match_info["partition"]))


def _quarantined(snapshot: ClusterView, tp: TopicPartition) -> str | None:
    found = snapshot.quarantine_of(*tp) if snapshot.quarantine else None
    return None if found is None else found[1]


def view_partition(
    tp: TopicPartition, view: PartitionView, change: LastChange, min_isr: int | None, reason: str | None
) -> PartitionItem:
    """Return one partition in the form of the HTTP API. ``reason``: that of its quarantine."""
    assignment, leadership = view.assignment, view.leadership
    return PartitionItem(
        topic=tp.topic,
        partition=tp.partition,
        state=view.state.value,
        leader=None if leadership is None else leadership.leader,
        leader_epoch=None if leadership is None else leadership.leader_epoch,
        isr=view.isr,
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
