"""What all reads share: the sources, the counts, and the forms of answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec
from aiohttp import web

from controllerd.core.model import BrokerId
from controllerd.pace import Pace
from controllerd.status.answers import answer
from controllerd.status.counts import PartitionCounter
from controllerd.status.pages import tag_of, tagged, unchanged
from controllerd.status.problems import Refused
from controllerd.status.queries import parameters
from controllerd.status.reads.loads import LoadTally
from controllerd.status.routing import Handler, Parameter, Route
from controllerd.status.schema.cluster import PendingRequest
from controllerd.status.schema.common import Meta
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_meta
from controllerd.views import TopicView

TOPIC = Parameter(name="topic", kind=str, description="Name of the topic.", required=True)
PARTITION = Parameter(name="partition", kind=int, description="Number of the partition.", required=True)
BROKER = Parameter(name="id", kind=int, description="Id of the broker.", required=True)
IF_NONE_MATCH = Parameter(
    name="If-None-Match",
    kind=str,
    description="The ETag of an earlier answer: 304 without a body while it is still right.",
    is_header=True,
)
_PATTERNS = {"partition": r"\d{1,9}", "id": r"\d{1,10}"}


@dataclass(frozen=True, slots=True)
class Reading:
    """What every read has at hand."""

    sources: StatusSources
    counter: PartitionCounter = field(default_factory=PartitionCounter)
    tally: LoadTally = field(default_factory=LoadTally)

    async def pace(self) -> Pace:
        """For whatever is looked through for one answer; begins when it is its turn."""
        return await self.sources.turnstile.pace()

    def meta(self) -> Meta:
        """The head of an answer."""
        return view_meta(self.sources)

    async def cached(
        self, request: web.Request, content: Callable[[], Awaitable[msgspec.Struct]], *extras: object
    ) -> web.Response:
        """The content with its ETag, or 304. ``extras``: what else than the snapshot makes another answer."""
        tag = tag_of(self.sources, *extras)
        same = unchanged(request, tag)
        return same if same is not None else tagged(answer(await content()), tag)

    def topic(self, name: str) -> TopicView:
        """:raises Refused: there is no such topic."""
        snapshot = self.sources.snapshot()
        view = snapshot.topics.get(name)
        if view is None:
            reason = snapshot.quarantine.get(f"/brokers/topics/{name}")
            detail = f"there is no topic {name[:250]!r}" if reason is None else f"its znode is left alone: {reason}"
            hint = "names are case-sensitive; GET /v1/topics lists them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_topic", detail, hint)
        return view

    def pending(self, broker: BrokerId, limit: int) -> list[PendingRequest]:
        """The first requests that wait for a broker, or for its answer."""
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


def reading(
    path: str,
    handler: Handler,
    summary: str,
    kind: type[msgspec.Struct],
    *,
    query: type[msgspec.Struct] | None = None,
    path_parameters: tuple[Parameter, ...] = (),
    is_cached: bool = False,
) -> Route:
    """A route that answers GET with one type."""
    asked = parameters(query) if query is not None else ()
    return Route(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        path_parameters=path_parameters,
        query=(*asked, IF_NONE_MATCH) if is_cached else asked,
        answers={HTTPStatus.OK: kind},
        patterns={each.name: _PATTERNS[each.name] for each in path_parameters if each.name in _PATTERNS},
    )
