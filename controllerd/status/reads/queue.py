"""``/v1/queue`` and ``/v1/requests``: the events of the controller, and the pending control requests to brokers."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from controllerd.clock import iso
from controllerd.core.model import BrokerId
from controllerd.loop import detail_of
from controllerd.record.records import EventBegin, EventEnd
from controllerd.status.http.routing import Limit, Query, parse_query, route
from controllerd.status.reads.context import Reads
from controllerd.status.reads.filters import BrokerFilter
from controllerd.status.schema.work import QueueItem, QueueList, RequestQueue, RequestQueueList
from controllerd.views import ChannelView
from events.queue import QueuedEvent

_ENDED: Final = 20
_MAX_DETAIL: Final = 500
_NO_CHANNEL: Final = ChannelView(connected=False)


class QueueQuery(Query, frozen=True, kw_only=True):
    """The query of the event queue."""

    limit: Limit = 100


class RequestQuery(Query, frozen=True, kw_only=True):
    """The query of the control requests."""

    broker: Annotated[BrokerFilter | None, Meta(description="Only this broker.")] = None
    limit: Annotated[int, Meta(ge=0, le=100, description="The number of waiting requests for each broker.")] = 10


class QueueReads(Reads):
    """The event queue, and the queues of control requests to brokers."""

    @route("/v1/queue", "Events that are running, waiting or ended recently", QueueList, query=QueueQuery)
    async def events(self, request: web.Request) -> QueueList:
        """Answer with the running event, then the waiting events, then the last ended ones."""
        return self.page(parse_query(request, QueueQuery).limit)

    def page(self, limit: int) -> QueueList:
        """Return at most this number of events."""
        queue, (begins, ends) = self._sources.queue, self._latest()
        items = [*self._running(begins), *map(_waiting, queue.waiting(limit)), *_ended(begins, ends)]
        return QueueList(meta=self._context.meta(), items=items[:limit], depth=len(queue))

    def _latest(self) -> tuple[dict[int, EventBegin], list[EventEnd]]:
        """Return the records of the running event and of the ended events that are shown, newest first."""
        begins, ends = dict[int, EventBegin](), list[EventEnd]()
        for entry in self._sources.recent.newest_first():
            record = entry.record
            if isinstance(record, EventEnd):
                ends.append(record)
            elif isinstance(record, EventBegin):
                begins[record.number] = record
                if len(begins) > _ENDED:
                    break
        return begins, ends

    def _running(self, begins: Mapping[int, EventBegin]) -> Iterator[QueueItem]:
        worker = self._sources.worker()
        if worker.event is None or worker.number is None:
            return
        begin = begins.get(worker.number)
        yield QueueItem(
            event_id=worker.number,
            event=worker.event,
            state=begin.state if begin is not None else 0,
            phase="running",
            wait_ms=begin.queued_ms if begin is not None else 0.0,
            run_ms=worker.running_s * 1000,
            detail=_text(begin.detail) if begin is not None else "",
        )

    @route("/v1/requests", "The control requests by broker", RequestQueueList, query=RequestQuery)
    async def requests(self, request: web.Request) -> RequestQueueList:
        """Answer with a queue for each broker; the queue of an unknown broker is empty."""
        query, channels = parse_query(request, RequestQuery), self._sources.channels()
        wanted = sorted(channels) if query.broker is None else [BrokerId(query.broker)]
        items = [self._requests(broker, channels.get(broker, _NO_CHANNEL), query.limit) for broker in wanted]
        return RequestQueueList(meta=self._context.meta(), items=items)

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
            waiting=self._context.pending(broker, limit),
        )

    def _ago(self, seconds: float | None) -> str | None:
        return None if seconds is None else iso(self._sources.now_ms() - round(seconds * 1000))


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


def _ended(begins: Mapping[int, EventBegin], ends: list[EventEnd]) -> Iterator[QueueItem]:
    known = ((end, begins[end.number]) for end in ends if end.number in begins)
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
