"""``/v1/topics``: topics in numbers, and why one is as it is."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import Meta

from controllerd.explain.history import transitions_of_topic
from controllerd.explain.topic import explain_topic
from controllerd.pace import Pace
from controllerd.status.answers import answer
from controllerd.status.counts import Counts
from controllerd.status.queries import Page, TopicGlob, asked
from controllerd.status.reads.context import TOPIC, Reading, reading
from controllerd.status.reads.selecting import topics_of
from controllerd.status.reads.settings import Settings
from controllerd.status.reads.windows import Cut, Window
from controllerd.status.routing import Route
from controllerd.status.schema.cluster import TopicDetail, TopicItem, TopicList
from controllerd.status.schema.why import WhyResponse
from controllerd.status.view import view_deletion
from controllerd.views import TopicView

Order = Literal["topic", "-partitions", "-offline", "-under_replicated", "-non_preferred", "-reassigning"]


class TopicQuery(Page, frozen=True, kw_only=True):
    """Which topics. A filter that is false wants those without such partitions."""

    topic: TopicGlob = ""
    offline: Annotated[bool | None, Meta(description="With partitions that nobody leads.")] = None
    under_replicated: Annotated[bool | None, Meta(description="With partitions whose ISR lacks replicas.")] = None
    non_preferred: Annotated[bool | None, Meta(description="With partitions not led by their preferred one.")] = None
    reassigning: Annotated[bool | None, Meta(description="With partitions that are reassigned.")] = None
    deleting: Annotated[bool | None, Meta(description="Whose deletion was asked for.")] = None
    sort: Annotated[Order, Meta(description="What they are in order of; -: the largest first.")] = "topic"


_VALUES: Final[Mapping[str, Callable[[Counts], int]]] = {
    "topic": lambda _counts: 0,
    "-partitions": lambda counts: -counts.partitions,
    "-offline": lambda counts: -counts.offline,
    "-under_replicated": lambda counts: -counts.under_replicated,
    "-non_preferred": lambda counts: -counts.non_preferred,
    "-reassigning": lambda counts: -counts.reassigning,
}


class TopicReads:
    """The list of topics, and single ones."""

    def __init__(self, reading: Reading, settings: Settings) -> None:
        self._reading = reading
        self._settings = settings

    def routes(self) -> list[Route]:
        """All under ``/v1/topics``."""
        path, one = "/v1/topics/{topic}", (TOPIC,)
        return [
            reading("/v1/topics", self.list, "Topics in numbers", TopicList, query=TopicQuery, is_cached=True),
            reading(path, self.one, "One topic, and what happened to it", TopicDetail, path_parameters=one),
            reading(f"{path}/why", self.why, "Why it is as it is, and what helps", WhyResponse, path_parameters=one),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """A page; 304 when the caller has it already."""
        query = asked(request, TopicQuery)
        return await self._reading.cached(request, lambda: self._page(query))

    async def _page(self, query: TopicQuery) -> TopicList:
        pace = await self._reading.pace()
        meta, cut = self._reading.meta(), await self._select(query, pace)
        return TopicList(meta=meta, items=cut.rows, total=cut.total, next_cursor=cut.next_cursor)

    async def _select(self, query: TopicQuery, pace: Pace) -> Cut[TopicItem]:
        snapshot, window = (
            self._reading.sources.snapshot(),
            Window[TopicItem](f"topics by {query.sort}", query.limit, query.cursor),
        )
        for view in topics_of(snapshot, query.topic):
            counts = await self._reading.counter.of(view, pace)
            if _is_wanted(query, view, counts):
                window.total += 1
                key = (_VALUES[query.sort](counts), view.name, 0)
                window.add([(key, view_topic(view, counts, snapshot.quarantine))])
            await pace.breathe()
        return window.cut()

    async def one(self, request: web.Request) -> web.Response:
        """:raises Refused: there is no such topic."""
        view, pace = self._reading.topic(request.match_info["topic"]), await self._reading.pace()
        counts = await self._reading.counter.of(view, pace)
        item = view_topic(view, counts, self._reading.sources.snapshot().quarantine)
        entries = tuple(self._reading.sources.recent.newest_first())
        transitions = await pace.run(transitions_of_topic(entries, view.name))
        return answer(TopicDetail(meta=self._reading.meta(), topic=item, transitions=transitions))

    async def why(self, request: web.Request) -> web.Response:
        """Also of a topic that does not exist: then that is the answer."""
        name, pace = request.match_info["topic"], await self._reading.pace()
        inputs = await self._settings.inputs([name])
        why = await pace.run(explain_topic(inputs, name))
        transitions = await pace.run(transitions_of_topic(inputs.entries, name))
        return answer(WhyResponse(meta=self._reading.meta(), why=why, partition=None, transitions=transitions))


def _is_wanted(query: TopicQuery, view: TopicView, counts: Counts) -> bool:
    asked_for = (
        (query.offline, counts.offline),
        (query.under_replicated, counts.under_replicated),
        (query.non_preferred, counts.non_preferred),
        (query.reassigning, counts.reassigning),
        (query.deleting, view.deletion is not None),
    )
    return all(wanted is None or wanted is bool(number) for wanted, number in asked_for)


def view_topic(view: TopicView, counts: Counts, quarantine: Mapping[str, str]) -> TopicItem:
    """One topic as it is published."""
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
