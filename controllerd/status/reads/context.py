"""The base of all read endpoints: the sources, the figures that readers share, and the settings of topics."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec
from aiohttp import web

from controllerd.core.cluster_settings import KAFKAS_DEFAULTS
from controllerd.core.model import BrokerId
from controllerd.explain.inputs import ExplanationInputs, TopicOverrides
from controllerd.record.envelope import RecentRecord
from controllerd.slicer import Slicer
from controllerd.status.http.paging import not_modified, with_tag
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Api, answer
from controllerd.status.reads.counts import (
    BrokerLoads,
    Counts,
    TopicFigures,
    add_counts,
    add_loads,
    count_partitions,
    measure_loads,
)
from controllerd.status.schema.cluster import PendingRequest
from controllerd.status.schema.common import Meta
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_meta
from controllerd.views import ClusterView, QueueView, TopicView


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The sources and figures that all read endpoints share."""

    sources: StatusSources
    counts: TopicFigures[Counts] = field(default_factory=lambda: TopicFigures(count_partitions, add_counts))
    loads: TopicFigures[BrokerLoads] = field(default_factory=lambda: TopicFigures(measure_loads, add_loads))

    async def slicer(self) -> Slicer:
        """Wait for the turn of this reader, and return the slicer of its pass."""
        return await self.sources.turnstile.slicer()

    def meta(self) -> Meta:
        """Return the metadata of an answer."""
        return view_meta(self.sources)

    def tag(self, *extras: object) -> str:
        """Return an ETag. Equal tags mean the same snapshot, in the same run of the same instance."""
        snapshot = self.sources.snapshot()
        parts = (self.sources.recent.boot, snapshot.version, snapshot.role.value, *extras)
        return f'W/"{"-".join(map(str, parts))}"'

    def entries(self) -> tuple[RecentRecord, ...]:
        """Return the recent records, newest first."""
        return tuple(self.sources.recent.newest_first())

    def topic(self, name: str) -> TopicView:
        """Return one topic. :raises Refused: there is no such topic."""
        snapshot = self.sources.snapshot()
        view = snapshot.topics.get(name)
        if view is None:
            reason = snapshot.quarantine.get(f"/brokers/topics/{name}")
            detail = f"there is no topic {name[:250]!r}" if reason is None else f"its znode is left alone: {reason}"
            hint = "names are case-sensitive; GET /v1/topics lists them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_topic", detail, hint)
        return view

    def pending(self, broker: BrokerId, limit: int) -> list[PendingRequest]:
        """Return the first requests that wait for a broker, or for its answer."""
        return [
            PendingRequest(
                broker=broker,
                api=each.api,
                partitions=each.partitions,
                age_s=each.age_s,
                attempts=each.attempts,
                in_flight=each.in_flight,
            )
            for each in self.sources.pending(broker, limit)
        ]

    @property
    def settings_version(self) -> int:
        """The version of the settings of topics; 0 where they are not known."""
        return self.sources.settings.version if self.sources.settings is not None else 0

    async def min_isr_of(self, topics: Collection[str]) -> dict[str, int]:
        """Return ``min.insync.replicas`` of the topics for which it is known."""
        if not topics:
            return {}
        inputs = await self.inputs(*topics)
        known = {topic: inputs.min_isr(topic) for topic in topics}
        return {topic: min_isr for topic, min_isr in known.items() if min_isr is not None}

    async def inputs(self, *topics: str) -> ExplanationInputs:
        """Return everything that explanations use, with the settings of these topics."""
        sources, settings = self.sources, self.sources.settings
        configs: TopicOverrides = {} if settings is None else await settings.of(topics)
        min_isr_by_default = None if settings is None else await settings.min_isr_by_default()
        known = sources.cluster_settings()
        return ExplanationInputs(
            snapshot=sources.snapshot(),
            now_ms=sources.now_ms(),
            entries=self.entries(),
            channels=sources.channels(),
            queue=QueueView(len(sources.queue), sources.queue.oldest_age_s()),
            worker=sources.worker(),
            session=sources.session(),
            policy=KAFKAS_DEFAULTS if settings is None else settings.policy,
            configs=configs,
            unclean_by_default=None if settings is None else settings.unclean_by_default(),
            unclean_awaits=() if known is None else known.unclean_awaits,
            min_isr_by_default=min_isr_by_default,
        )


class Reads(Api):
    """The base class of a group of read endpoints; routes are declared at the methods."""

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        self._sources = context.sources

    @property
    def _snapshot(self) -> ClusterView:
        return self._sources.snapshot()

    async def _unless_known(
        self, request: web.Request, content: Callable[[], Awaitable[msgspec.Struct]], *extras: object
    ) -> web.Response:
        """Return the content with its ETag, or 304. ``extras``: values besides the snapshot that the content shows."""
        tag = self._context.tag(*extras)
        same = not_modified(request, tag)
        return same if same is not None else with_tag(answer(await content()), tag)
