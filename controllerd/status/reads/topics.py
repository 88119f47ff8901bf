"""``/v1/topics`` and ``/v1/deletions``: topics with their counts, explanations, and requested deletions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import Meta

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.explain.history import transitions_of_topic
from controllerd.explain.topic import explain_topic
from controllerd.record.records import DeletionRecord
from controllerd.slicer import Slicer
from controllerd.status.http.paging import Page, PageBuilder
from controllerd.status.http.routing import IF_NONE_MATCH, TOPIC, ListQuery, TopicGlob, parse_query, route
from controllerd.status.reads.context import Reads
from controllerd.status.reads.counts import Counts
from controllerd.status.reads.filters import topics_matching
from controllerd.status.schema.cluster import TopicDetail, TopicItem, TopicList, WhyResponse
from controllerd.status.schema.work import DeletionBlocker, DeletionItem, DeletionList
from controllerd.status.view import view_deletion
from controllerd.views import ClusterView, DeletionView, TopicView

TopicOrder = Literal["topic", "-partitions", "-offline", "-under_replicated", "-non_preferred", "-reassigning"]


class TopicQuery(ListQuery, frozen=True, kw_only=True):
    """The query of a list of topics. A filter that is false selects the topics without such partitions."""

    topic: TopicGlob = ""
    offline: Annotated[bool | None, Meta(description="With partitions without a leader.")] = None
    under_replicated: Annotated[bool | None, Meta(description="With under-replicated partitions.")] = None
    non_preferred: Annotated[
        bool | None, Meta(description="With partitions that their preferred replica does not lead.")
    ] = None
    reassigning: Annotated[bool | None, Meta(description="With partitions that are being reassigned.")] = None
    deleting: Annotated[bool | None, Meta(description="With a requested deletion.")] = None
    sort: Annotated[TopicOrder, Meta(description="The order; -: the largest first.")] = "topic"


_VALUES: Final[Mapping[str, Callable[[Counts], int]]] = {
    "topic": lambda _counts: 0,
    "-partitions": lambda counts: -counts.partitions,
    "-offline": lambda counts: -counts.offline,
    "-under_replicated": lambda counts: -counts.under_replicated,
    "-non_preferred": lambda counts: -counts.non_preferred,
    "-reassigning": lambda counts: -counts.reassigning,
}


class TopicReads(Reads):
    """Lists of topics, single topics, explanations, and the list of deletions."""

    @route("/v1/topics", "Topics with their counts", TopicList, query=TopicQuery, extra=(IF_NONE_MATCH,))
    async def list_topics(self, request: web.Request) -> web.Response:
        """Answer with a page, or with 304 if the client has it already."""
        query = parse_query(request, TopicQuery)
        return await self._unless_known(request, lambda: self._page(query))

    async def _page(self, query: TopicQuery) -> TopicList:
        slicer = await self._context.slicer()
        meta, cut = self._context.meta(), await self._select(query, slicer)
        return TopicList(meta=meta, items=cut.rows, total=cut.total, next_cursor=cut.next_cursor)

    async def _select(self, query: TopicQuery, slicer: Slicer) -> Page[TopicItem]:
        window, snapshot = PageBuilder[TopicItem](f"topics by {query.sort}", query.limit, query.cursor), self._snapshot
        for view in topics_matching(snapshot, query.topic):
            counts = await self._context.counts.of(view, slicer)
            if _is_wanted(query, view, counts):
                window.total += 1
                key = (_VALUES[query.sort](counts), view.name, 0)
                window.add([(key, view_topic(view, counts, snapshot.quarantine))])
            await slicer.yield_to_loop()
        return window.build()

    @route("/v1/topics/{topic}", "One topic, and its last transitions", TopicDetail, TOPIC)
    async def topic(self, request: web.Request) -> TopicDetail:
        """Answer with a topic and its last transitions. :raises Refused: there is no such topic."""
        view, slicer = self._context.topic(request.match_info["topic"]), await self._context.slicer()
        item = view_topic(view, await self._context.counts.of(view, slicer), self._snapshot.quarantine)
        transitions = await slicer.run(transitions_of_topic(self._context.entries(), view.name))
        return TopicDetail(meta=self._context.meta(), topic=item, transitions=transitions)

    @route("/v1/topics/{topic}/why", "Explanation of its condition, with next steps", WhyResponse, TOPIC)
    async def why(self, request: web.Request) -> WhyResponse:
        """Answer with an explanation, also for a topic that does not exist."""
        name, slicer = request.match_info["topic"], await self._context.slicer()
        inputs = await self._context.inputs(name)
        why = await slicer.run(explain_topic(inputs, name))
        transitions = await slicer.run(transitions_of_topic(inputs.entries, name))
        return WhyResponse(meta=self._context.meta(), why=why, partition=None, transitions=transitions)

    @route("/v1/deletions", "Requested deletions of topics, with the reasons for a wait", DeletionList)
    async def list_deletions(self, _request: web.Request) -> DeletionList:
        """Answer with the deletions by name."""
        return DeletionList(meta=self._context.meta(), items=self.deletions())

    def deletions(self) -> list[DeletionItem]:
        """Return the deletions by name."""
        snapshot, queued, now_ms = self._snapshot, self._queued_at(), self._sources.now_ms()
        return [
            view_deletion_item(name, each, snapshot, (now_ms - queued[name]) / 1000 if name in queued else None)
            for name, each in sorted(snapshot.deletions.items())
        ]

    def _queued_at(self) -> dict[str, int]:
        """Return the times when the deletion of each topic was last requested, by the recent records."""
        queued: dict[str, int] = {}
        for entry in self._context.entries():
            if isinstance(record := entry.record, DeletionRecord):
                for topic, change in zip(record.topics, record.changes, strict=True):
                    if change == "queued":
                        queued.setdefault(topic, entry.at_ms)
        return queued


def _is_wanted(query: TopicQuery, view: TopicView, counts: Counts) -> bool:
    filters = (
        (query.offline, counts.offline),
        (query.under_replicated, counts.under_replicated),
        (query.non_preferred, counts.non_preferred),
        (query.reassigning, counts.reassigning),
        (query.deleting, view.deletion is not None),
    )
    return all(wanted is None or wanted is bool(number) for wanted, number in filters)


def view_topic(view: TopicView, counts: Counts, quarantine: Mapping[str, str]) -> TopicItem:
    """Return one topic in the form of the HTTP API."""
    return TopicItem(
        topic=view.name,
        topic_id=view.topic_id,
        partitions=counts.partitions,
        replication_factor=counts.replication_factor,
        offline=counts.offline,
        under_replicated=counts.under_replicated,
        non_preferred=counts.non_preferred,
        waiting=counts.waiting,
        reassigning=counts.reassigning,
        deletion=None if view.deletion is None else view_deletion(view.name, view.deletion),
        quarantine=quarantine.get(f"/brokers/topics/{view.name}"),
    )


def view_deletion_item(name: str, deletion: DeletionView, snapshot: ClusterView, age_s: float | None) -> DeletionItem:
    """Return one deletion in the form of the HTTP API."""
    by_state: Counter[str] = Counter()
    for (_, state), number in deletion.replicas.items():
        by_state[state.value] += number
    return DeletionItem(
        deletion=view_deletion(name, deletion),
        replicas_by_state=dict(sorted(by_state.items())),
        blockers=list(_blockers(deletion, snapshot)),
        age_s=age_s,
    )


def _blockers(deletion: DeletionView, snapshot: ClusterView) -> Iterator[DeletionBlocker]:
    for (broker, state), number in sorted(deletion.replicas.items(), key=lambda item: (item[0][0], item[0][1].value)):
        if state is not ReplicaState.DELETION_SUCCESSFUL:
            why = _why(broker, state, deletion, snapshot)
            yield DeletionBlocker(broker=broker, replicas=number, state=state.value, why=why)


def _why(broker: BrokerId, state: ReplicaState, deletion: DeletionView, snapshot: ClusterView) -> str:
    if broker not in snapshot.brokers:
        return f"broker {broker} is not alive; start it, or forget it if it never returns"
    if state is ReplicaState.DELETION_STARTED or broker in deletion.deleting:
        return f"broker {broker} received the request to delete them and has not answered"
    if state is ReplicaState.DELETION_INELIGIBLE:
        return f"broker {broker} could not delete them; the request is repeated later"
    return deletion.held_up_by or f"the request to broker {broker} has not been sent yet"
