"""``/v1/events``: the recent records, as a list or as a stream of server-sent events.

A stream buffers at most one batch for its client, and continues in the recent records. A client gets a gap if it reads
so slowly, or reconnects so late, that records are no longer kept. A client that does not read is disconnected.
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
from controllerd.record.kinds import KINDS, sentence_of
from controllerd.record.phrases import names_of, partitions_of, topics_of
from controllerd.status.http.openapi import EVENT_STREAM
from controllerd.status.http.problems import Refused, as_text
from controllerd.status.http.routing import MAX_LIMIT, Parameter, Query, TopicGlob, answer, parse_query, route
from controllerd.status.reads.context import ReadContext, Reads
from controllerd.status.reads.filters import glob
from controllerd.status.schema.history import Gap, Happening, HappeningList

HEARTBEAT_S: Final = 15.0
PATIENCE_S: Final = 30.0
"""A client that reads nothing for this time is disconnected."""
_BATCH: Final = 100
_ID_SHOWN: Final = 60
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LAST_EVENT_ID: Final = Parameter(
    name="Last-Event-ID",
    kind=str,
    description="The id of the last event that was received; the stream continues after it.",
    is_header=True,
)
Duration = Annotated[
    str, Meta(pattern=r"^([0-9]{1,9}(ms|s|m|h|d))?$", description="Only records of this last period, such as 10m.")
]


class EventQuery(Query, frozen=True, kw_only=True):
    """The query of the recent records."""

    since: Duration = ""
    kind: Annotated[str, Meta(max_length=1_000, description="Only these kinds of records, separated by commas.")] = ""
    topic: TopicGlob = ""
    limit: Annotated[
        int, Meta(ge=1, le=MAX_LIMIT, description="The number of newest records; no limit for a stream.")
    ] = 500


class EventFilter:
    """The filter of the records that a client gets."""

    def __init__(self, query: EventQuery, now_ms: int) -> None:
        """:raises Refused: there is no such kind of records."""
        self._kinds = frozenset(filter(None, query.kind.split(",")))
        unknown = sorted(self._kinds - KINDS.keys())
        if unknown:
            detail = f"there are no records of the kind {', '.join(unknown)[:200]}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_parameter", detail, f"kinds are {', '.join(sorted(KINDS))}")
        self._matches = glob(query.topic)
        number = query.since.rstrip("dhms")
        self._from_ms = now_ms - int(number) * _UNITS[query.since.removeprefix(number)] if number else 0

    def matches(self, entry: RecentRecord) -> bool:
        """Whether a client gets this record."""
        record = entry.record
        if entry.at_ms < self._from_ms or (self._kinds and record.kind not in self._kinds):
            return False
        return self._matches is None or any(map(self._matches, set(names_of(record))))


class EventReads(Reads):
    """The list and the stream of recent records."""

    def __init__(
        self, context: ReadContext, *, heartbeat_s: float = HEARTBEAT_S, patience_s: float = PATIENCE_S
    ) -> None:
        """``heartbeat_s``: interval of heartbeats; ``patience_s``: limit for a client that does not read."""
        super().__init__(context)
        self._heartbeat_s = heartbeat_s
        self._patience_s = patience_s

    @route(
        "/v1/events",
        "Recent records; with Accept: text/event-stream a stream of new ones",
        HappeningList,
        query=EventQuery,
        extra=(_LAST_EVENT_ID,),
        is_stream=True,
    )
    async def events(self, request: web.Request) -> web.StreamResponse:
        """Answer with a stream if the client accepts one, else with a list."""
        query = parse_query(request, EventQuery)
        wanted = EventFilter(query, self._sources.now_ms())
        if request.method == "GET" and EVENT_STREAM in request.headers.get("Accept", ""):
            return await self._stream(request, query, wanted)
        return answer(await self._list(query, wanted))

    async def _list(self, query: EventQuery, wanted: EventFilter) -> HappeningList:
        slicer = await self._context.slicer()
        recent, found = self._sources.recent, list[Happening]()
        oldest = f"{recent.boot}.{recent.oldest}" if recent.newest >= recent.oldest else None
        for entry in self._context.entries():
            await slicer.yield_to_loop()
            if wanted.matches(entry):
                found.append(view_entry(recent, entry))
                if len(found) == query.limit:
                    break
        return HappeningList(meta=self._context.meta(), items=found[::-1], oldest_id=oldest)

    async def _stream(self, request: web.Request, query: EventQuery, wanted: EventFilter) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
        await response.prepare(request)
        stream = _EventStream(self._sources.recent, response, self._heartbeat_s)
        try:
            await stream.begin(request.headers.get("Last-Event-ID", ""), is_whole=bool(query.since))
            while True:
                async with asyncio.timeout(self._heartbeat_s + self._patience_s):
                    await stream.step(wanted)
        except TimeoutError:
            if request.transport is not None:  # the client does not read from its socket
                request.transport.abort()
        return response


class _EventStream:
    """The stream of one client."""

    def __init__(self, recent: Recent, response: web.StreamResponse, heartbeat_s: float) -> None:
        self._recent = recent
        self._response = response
        self._heartbeat_s = heartbeat_s
        self._at = recent.newest

    async def begin(self, last_id: str, *, is_whole: bool) -> None:
        """Find the position to continue; ``is_whole``: the oldest record, if the client names none."""
        recent = self._recent
        boot, _, number = last_id.rpartition(".")
        if not last_id:
            self._at = recent.oldest - 1 if is_whole else recent.newest
        elif boot != recent.boot or not _NUMBER.fullmatch(number) or int(number) > recent.newest:
            await self._send_gap(last_id, "this id belongs to another run of the daemon")
        else:
            self._at = int(number)

    async def step(self, wanted: EventFilter) -> None:
        """Send the next batch, or a heartbeat after a time without records."""
        if self._at + 1 < self._recent.oldest:
            await self._send_gap(self._id(self._at), "the records after it are no longer kept")
        entries = self._recent.after(self._at, _BATCH)
        if not entries:
            await self._wait()
            return
        self._at = entries[-1].number
        frames = [frame(view_entry(self._recent, entry)) for entry in entries if wanted.matches(entry)]
        if frames:
            await self._response.write(b"".join(frames))

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await self._recent.wait(self._at)
        except TimeoutError:
            # The heartbeat has the newest id, so that a client that reconnects later misses as few records as possible.
            await self._response.write(f": alive\nid: {self._id(self._at)}\n\n".encode())

    async def _send_gap(self, last_id: str, detail: str) -> None:
        self._at = self._recent.oldest - 1
        gap = Gap(after=as_text(last_id[:_ID_SHOWN]), next_id=self._id(self._at + 1), detail=detail)
        await self._response.write(b"event: gap\ndata: " + msgspec.json.encode(gap) + b"\n\n")

    def _id(self, number: int) -> str:
        return f"{self._recent.boot}.{number}"


def view_entry(recent: Recent, entry: RecentRecord) -> Happening:
    """Return one record in the form of the HTTP API."""
    return Happening(
        id=f"{recent.boot}.{entry.number}",
        at=iso(entry.at_ms),
        at_ms=entry.at_ms,
        event_id=entry.event,
        controller_epoch=entry.epoch,
        kind=entry.record.kind,
        summary=sentence_of(entry.record),
        topics=topics_of(entry.record),
        partitions=partitions_of(entry.record),
    )


def frame(happening: Happening) -> bytes:
    """Return one server-sent event."""
    head = f"id: {happening.id}\nevent: {happening.kind}\ndata: ".encode()
    return head + msgspec.json.encode(happening) + b"\n\n"
