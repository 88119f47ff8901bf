"""``/v1/events``: what happens, as a list or as a stream of server-sent events.

A stream keeps no more than one batch for its client: it reads on in what is remembered anyway. Who reads so slowly that
it is forgotten meanwhile, or comes back too late, is told of the gap; who does not read at all is let go.
"""

import asyncio
import re
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from controllerd.clock import iso
from controllerd.recent import Recent
from controllerd.record.envelope import RecentRecord
from controllerd.record.kinds import KINDS
from controllerd.status.answers import answer
from controllerd.status.problems import Refused, as_text
from controllerd.status.queries import MAX_LIMIT, Query, TopicGlob, asked, parameters
from controllerd.status.reads.filters import glob
from controllerd.status.routing import Parameter, Route
from controllerd.status.schema.history import Gap, Happening, HappeningList
from controllerd.status.sources import StatusSources
from controllerd.status.summaries import names_of, partitions_of, summary_of, topics_of
from controllerd.status.view import view_meta

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
PATIENCE_S: Final = 30.0
"""A reader that takes nothing for so long is let go."""
_BATCH: Final = 100
_ID_SHOWN: Final = 60
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LAST_EVENT_ID: Final = Parameter(
    name="Last-Event-ID",
    kind=str,
    description="The id of the last event that was seen: the stream goes on behind it.",
    is_header=True,
)
Duration = Annotated[
    str, Meta(pattern=r"^([0-9]{1,9}(ms|s|m|h|d))?$", description="Only what happened within this time, such as 10m.")
]


class FeedQuery(Query, frozen=True, kw_only=True):
    """What of all that happens."""

    since: Duration = ""
    kind: Annotated[str, Meta(max_length=1_000, description="Only these kinds of records, separated by commas.")] = ""
    topic: TopicGlob = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many of the newest; a stream does not end.")] = 500


class Sieve:
    """Which entries a caller wants."""

    def __init__(self, query: FeedQuery, now_ms: int) -> None:
        """:raises Refused: there is no such kind of records."""
        self._kinds = frozenset(filter(None, query.kind.split(",")))
        unknown = sorted(self._kinds - KINDS.keys())
        if unknown:
            detail = f"there are no records of the kind {', '.join(unknown)[:200]}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_parameter", detail, f"kinds are {', '.join(sorted(KINDS))}")
        self._matches = glob(query.topic)
        self._from_ms = now_ms - _milliseconds(query.since) if query.since else 0

    def wants(self, entry: RecentRecord) -> bool:
        """Whether an entry is shown."""
        record = entry.record
        if entry.at_ms < self._from_ms or (self._kinds and record.kind not in self._kinds):
            return False
        return self._matches is None or any(map(self._matches, set(names_of(record))))


def _milliseconds(since: str) -> int:
    number = since.rstrip("dhms")
    return int(number) * _UNITS[since.removeprefix(number)]


class FeedApi:
    """The live feed."""

    def __init__(
        self, sources: StatusSources, *, heartbeat_s: float = HEARTBEAT_S, patience_s: float = PATIENCE_S
    ) -> None:
        """``heartbeat_s``: between two signs of life while nothing happens; ``patience_s``: with a slow reader."""
        self._sources = sources
        self._heartbeat_s = heartbeat_s
        self._patience_s = patience_s

    def routes(self) -> list[Route]:
        """``/v1/events``."""
        return [
            Route(
                method="GET",
                path="/v1/events",
                handler=self.events,
                summary="What happens: the newest of late, or with Accept: text/event-stream all that comes",
                query=(*parameters(FeedQuery), _LAST_EVENT_ID),
                answers={HTTPStatus.OK: HappeningList},
                is_stream=True,
            )
        ]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """A stream for whoever accepts one, a list for everybody else."""
        query = asked(request, FeedQuery)
        sieve = Sieve(query, self._sources.now_ms())
        if request.method == "GET" and EVENT_STREAM in request.headers.get("Accept", ""):
            return await self._stream(request, query, sieve)
        return answer(await self._list(query, sieve))

    async def _list(self, query: FeedQuery, sieve: Sieve) -> HappeningList:
        pace = await self._sources.turnstile.pace()
        recent, found = self._sources.recent, list[Happening]()
        oldest = f"{recent.boot}.{recent.oldest}" if recent.newest >= recent.oldest else None
        for entry in list(recent.newest_first()):
            await pace.breathe()
            if sieve.wants(entry):
                found.append(view_entry(recent, entry))
                if len(found) == query.limit:
                    break
        return HappeningList(meta=view_meta(self._sources), items=found[::-1], oldest_id=oldest)

    async def _stream(self, request: web.Request, query: FeedQuery, sieve: Sieve) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
        await response.prepare(request)
        reader = _Reader(self._sources.recent, response, self._heartbeat_s)
        try:
            await reader.begin(request.headers.get("Last-Event-ID", ""), is_whole=bool(query.since))
            while True:
                async with asyncio.timeout(self._heartbeat_s + self._patience_s):
                    await reader.step(sieve)
        except TimeoutError:
            _let_go(request)
        return response


def _let_go(request: web.Request) -> None:
    """Nobody reads what waits in the socket's buffer."""
    if request.transport is not None:
        request.transport.abort()


class _Reader:
    """One client that follows."""

    def __init__(self, recent: Recent, response: web.StreamResponse, heartbeat_s: float) -> None:
        self._recent = recent
        self._response = response
        self._heartbeat_s = heartbeat_s
        self._at = recent.newest

    async def begin(self, last_id: str, *, is_whole: bool) -> None:
        """Find where to go on; ``is_whole``: from the oldest, where the caller does not say."""
        recent = self._recent
        boot, _, number = last_id.rpartition(".")
        if not last_id:
            self._at = recent.oldest - 1 if is_whole else recent.newest
        elif boot != recent.boot or not _NUMBER.fullmatch(number) or int(number) > recent.newest:
            await self._tell_gap(last_id, "this id is of another run of the daemon")
        else:
            self._at = int(number)

    async def step(self, sieve: Sieve) -> None:
        """The next batch; a sign of life when nothing comes for long."""
        if self._at + 1 < self._recent.oldest:
            await self._tell_gap(self._id(self._at), "what came next is no longer remembered")
        entries = self._recent.after(self._at, _BATCH)
        if not entries:
            await self._rest()
            return
        self._at = entries[-1].number
        frames = [frame(view_entry(self._recent, entry)) for entry in entries if sieve.wants(entry)]
        if frames:
            await self._response.write(b"".join(frames))

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await self._recent.wait(self._at)
        except TimeoutError:
            # The id moves on without an event, so that whoever comes back was not away for as long as nothing matched.
            await self._response.write(f": alive\nid: {self._id(self._at)}\n\n".encode())

    async def _tell_gap(self, last_id: str, detail: str) -> None:
        self._at = self._recent.oldest - 1
        gap = Gap(after=as_text(last_id[:_ID_SHOWN]), next_id=self._id(self._at + 1), detail=detail)
        await self._response.write(b"event: gap\ndata: " + msgspec.json.encode(gap) + b"\n\n")

    def _id(self, number: int) -> str:
        return f"{self._recent.boot}.{number}"


def view_entry(recent: Recent, entry: RecentRecord) -> Happening:
    """One record as the feed shows it."""
    return Happening(
        id=f"{recent.boot}.{entry.number}",
        at=iso(entry.at_ms),
        at_ms=entry.at_ms,
        event_id=entry.event,
        controller_epoch=entry.epoch,
        kind=entry.record.kind,
        summary=summary_of(entry.record),
        topics=topics_of(entry.record),
        partitions=partitions_of(entry.record),
    )


def frame(happening: Happening) -> bytes:
    """One server-sent event."""
    head = f"id: {happening.id}\nevent: {happening.kind}\ndata: ".encode()
    return head + msgspec.json.encode(happening) + b"\n\n"
