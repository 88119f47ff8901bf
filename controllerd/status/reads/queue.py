"""``/v1/queue`` and ``/v1/requests``: what the controller does, and what it waits for."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from controllerd.clock import iso
from controllerd.core.model import BrokerId
from controllerd.loop import detail_of
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import EventBegin, EventEnd
from controllerd.status.answers import answer
from controllerd.status.queries import Limit, Query, asked
from controllerd.status.reads.context import Reading, reading
from controllerd.status.reads.filters import BrokerNumber
from controllerd.status.routing import Route
from controllerd.status.schema.work import QueueItem, QueueList, RequestQueue, RequestQueueList
from controllerd.views import ChannelView
from events.queue import QueuedEvent

_ENDED: Final = 20
_NOTHING: Final = ChannelView(connected=False)


class QueueQuery(Query, frozen=True, kw_only=True):
    """How much of the queue."""

    limit: Limit = 100


class RequestQuery(Query, frozen=True, kw_only=True):
    """Of which broker."""

    broker: Annotated[BrokerNumber | None, Meta(description="Only this broker.")] = None
    limit: Annotated[int, Meta(ge=0, le=100, description="How many waiting requests of each broker.")] = 10


class QueueReads:
    """The event queue, and the queues of control requests."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/queue`` and ``/v1/requests``."""
        return [
            reading(
                "/v1/queue", self.queue, "The events: in work, waiting, and ended of late", QueueList, query=QueueQuery
            ),
            reading(
                "/v1/requests", self.requests, "The control requests by broker", RequestQueueList, query=RequestQuery
            ),
        ]

    async def queue(self, request: web.Request) -> web.Response:
        """The event in work first, then those that wait, then the latest that ended."""
        return answer(self.page(asked(request, QueueQuery).limit))

    def page(self, limit: int) -> QueueList:
        """At most so many events."""
        queue = self._reading.sources.queue
        begun = _begun(self._reading.sources.recent.newest_first())
        items = [*self._running(begun), *map(_waiting, queue.waiting(limit)), *_ended(begun)]
        return QueueList(meta=self._reading.meta(), items=items[:limit], depth=len(queue))

    def _running(self, begun: "_Latest") -> Iterator[QueueItem]:
        worker = self._reading.sources.worker()
        if worker.event is None or worker.number is None:
            return
        begin = begun.begins.get(worker.number)
        yield QueueItem(
            event_id=worker.number,
            event=worker.event,
            state=begin.state if begin is not None else 0,
            phase="running",
            wait_ms=begin.queued_ms if begin is not None else 0.0,
            run_ms=worker.running_s * 1000,
            detail=_text(begin.detail) if begin is not None else "",
        )

    async def requests(self, request: web.Request) -> web.Response:
        """By broker; one that is unknown has nothing waiting."""
        query, channels = asked(request, RequestQuery), self._reading.sources.channels()
        wanted = sorted(channels) if query.broker is None else [BrokerId(query.broker)]
        items = [self._requests(broker, channels.get(broker, _NOTHING), query.limit) for broker in wanted]
        return answer(RequestQueueList(meta=self._reading.meta(), items=items))

    def _requests(self, broker: BrokerId, channel: ChannelView, limit: int) -> RequestQueue:
        return RequestQueue(
            broker=broker,
            connected=channel.connected,
            depth=channel.depth,
            bytes_waiting=channel.bytes_waiting,
            oldest_age_s=channel.oldest_age_s,
            in_flight=channel.in_flight,
            attempts=channel.attempts,
            last_sent=self._ago(channel.last_sent_s),
            last_answered=self._ago(channel.last_answered_s),
            error=channel.error,
            waiting=self._reading.pending(broker, limit),
        )

    def _ago(self, seconds: float | None) -> str | None:
        return None if seconds is None else iso(self._reading.sources.now_ms() - round(seconds * 1000))


class _Latest:
    """The latest events, newest first, by what the audit log was told of them."""

    def __init__(self) -> None:
        self.begins: dict[int, EventBegin] = {}
        self.ends: list[EventEnd] = []


def _begun(newest_first: Iterator[RecentRecord]) -> _Latest:
    """As many as are shown, and the one in work."""
    latest = _Latest()
    for record in (entry.record for entry in newest_first):
        if isinstance(record, EventEnd):
            latest.ends.append(record)
        elif isinstance(record, EventBegin):
            latest.begins[record.number] = record
            if len(latest.begins) > _ENDED:
                break
    return latest


def _waiting(waiting: tuple[QueuedEvent, float]) -> QueueItem:
    queued, waited_s = waiting
    return QueueItem(
        event_id=queued.number,
        event=type(queued.event).__name__,
        state=queued.event.state,
        phase="waiting",
        wait_ms=waited_s * 1000,
        run_ms=None,
        detail=_text(detail_of(queued.event)),
    )


def _ended(latest: _Latest) -> Iterator[QueueItem]:
    known = ((end, latest.begins[end.number]) for end in latest.ends if end.number in latest.begins)
    for end, begin in islice(known, _ENDED):
        yield QueueItem(
            event_id=end.number,
            event=end.name,
            state=begin.state,
            phase="done",
            wait_ms=begin.queued_ms,
            run_ms=end.took_ms,
            outcome=end.outcome,
            error=end.error,
            detail=_text(begin.detail),
        )


def _text(detail: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in detail.items())[:_MAX_DETAIL]


_MAX_DETAIL: Final = 500
