"""The one consumer of the queue: it takes, dispatches, answers once, records, publishes, and handles failures.

This is one of the two supervisors where a broad ``except`` is allowed. Any exception of a handler is answered to the
caller. If the event had written or changed anything, the context may differ from ZooKeeper, and a new term begins: its
load makes them equal again.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import TopicPartition
from controllerd.errors import (
    CallFailed,
    CallRefused,
    ControllerMoved,
    InvariantBroken,
    NotController,
    RefusedToLead,
    StoreUnavailable,
)
from controllerd.garbage import Collector, Garbage
from controllerd.ports.audit import Metrics
from controllerd.record.families.operators import AdminRecord
from controllerd.record.kinds import EVERY_KIND
from controllerd.record.records import (
    MAX_ROWS,
    AlarmRecord,
    ConfigRecord,
    EventBegin,
    EventEnd,
    Record,
    ReplyRecord,
    ResponseRecord,
    SessionRecord,
    ZkWriteRecord,
)
from controllerd.slicer import prioritise_event_loop
from controllerd.snapshot import Publication
from events.admin import ControlledShutdownReply
from events.base import ControllerState, Event
from events.cluster import Reelect, ShutdownEventThread
from events.operator import DrainReply
from events.queue import QueuedEvent
from events.registry import AnyEvent
from handlers.dispatch import END_OF_EVENT, dispatch
from handlers.role import begin_new_term, end_term, give_up_role

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = structlog.get_logger(__name__)

FAILURE_WINDOW_S: Final = 600.0
FAILURES_UNTIL_GIVING_UP: Final = 3
_FROM_OUTSIDE: Final = frozenset({ResponseRecord, AlarmRecord, SessionRecord, AdminRecord, ConfigRecord})
_DETAIL_FIELDS: Final = 8
_SUMMARY_LENGTH: Final = 400
_word: Final = re.compile(r"[\w./:-]+").fullmatch
"""Matches text that needs no quotes."""
_FULL_LENGTH: Final = 100_000


class WriteWatch:
    """Notices whether the event being handled has written to ZooKeeper, and how far it has come. Subscribes to records.

    The count of records is progress while an event is being handled; records that arise outside of events are not
    taken.
    """

    takes: Final = EVERY_KIND - _FROM_OUTSIDE

    def __init__(self) -> None:
        self.has_written = False
        self.count = 0
        """Records of events so far: a growing count is progress of the current one. Other tasks do not count."""

    def record(self, *records: Record) -> None:
        """Count them."""
        self.count += len(records)
        self.has_written = self.has_written or any(isinstance(record, ZkWriteRecord) for record in records)


class EventLoop:
    """Drains the queue until ``ShutdownEventThread`` was handled."""

    def __init__(
        self,
        c: Controller,
        watch: WriteWatch,
        metrics: Metrics,
        on_published: Callable[[], None] = lambda: None,
        garbage: Collector | None = None,
        *,
        in_full: bool = False,
        at_rest: Callable[[], object] = lambda: None,
    ) -> None:
        """``on_published`` is called after each event, when the snapshot is up to date; it must not block.

        ``in_full``: write down all of an event's details. ``at_rest`` is called between two events, for a moment.
        """
        self._in_full = in_full
        self._at_rest = at_rest
        self._on_published = on_published
        self._c = c
        self._watch = watch
        self._metrics = metrics
        self._failures: deque[tuple[float, str]] = deque()
        self._changes_before = 0
        self._garbage = garbage or Garbage()
        self.current: QueuedEvent | None = None
        self.state = ControllerState.IDLE
        self.progressed_at = c.clock.monotonic()
        """Monotonic seconds at which an event began or ended, or the loop was idle: feeds the watchdog."""

    async def run(self) -> None:
        """Serve until shutdown."""
        prioritise_event_loop()
        try:
            while True:
                queued = await self._c.queue.take()
                await self.handle(queued)
                self._at_rest()
                if isinstance(queued.event, ShutdownEventThread):
                    return
        finally:
            self._c.queue.close()  # however it ends: every waiting caller gets an answer

    async def handle(self, queued: QueuedEvent) -> None:
        """Handle one event, from its first record to its last."""
        self.current, self.state = queued, queued.event.state
        self._garbage.pause()
        try:
            await self._handle(queued)
        finally:
            queued.preempt()  # answered exactly once: by now only a cancelled event has not been
            self._garbage.resume(keeps_image=self._c.is_active)
        self.current, self.state = None, ControllerState.IDLE
        self.progressed_at = self._c.clock.monotonic()

    async def _handle(self, queued: QueuedEvent) -> None:
        self._watch.has_written, self._changes_before = False, self._c.context.change_count
        started = self.progressed_at = self._c.clock.monotonic()
        name = type(queued.event).__name__
        waited = started - queued.enqueued_at
        begin = EventBegin(queued.number, name, queued.event.state, waited * 1000, self._detail(queued.event))
        self._c.audit.record(begin)
        outcome, error = await self._run(queued)
        await self._c.outbox.write_down_slowly()
        took = self._c.clock.monotonic() - started
        self._c.audit.record(EventEnd(queued.number, name, outcome, took * 1000, error))
        for step in END_OF_EVENT:
            step(self._c)
        await self._publish()
        self._on_published()
        self._metrics.observe_event(queued.event.state, name, waited, took)

    def _detail(self, event: Event) -> dict[str, object]:
        return full_detail_of(event) if self._in_full else detail_of(event)

    async def _publish(self) -> None:
        """Prepare the new snapshot a topic at a time, and show all of it at once."""
        publication = Publication(self._c.context)
        while publication.prepare_one():
            await self._c.outbox.slicer.yield_to_loop()
        publication.show(self._c.snapshot, self._c.clock.now_ms())

    async def _run(self, queued: QueuedEvent) -> tuple[str, str | None]:
        """Dispatch and answer; returns the outcome for the audit log and what went wrong."""
        try:
            result = await dispatch(cast("AnyEvent", queued.event), self._c)
        except ControllerMoved as moved:
            return await self._moved(queued, moved)
        except StoreUnavailable as gone:
            # Expire follows by itself and ends the term; until then nothing more is written or sent.
            queued.fail(NotController(f"ZooKeeper is not reachable: {gone}"))
            return "unavailable", str(gone)
        except (CallRefused, NotController, RefusedToLead) as refusal:
            log.warning("refused event", event_name=type(queued.event).__name__, reason=str(refusal))
            queued.fail(refusal)
            return "refused", str(refusal)
        except Exception as error:
            return await self._failed(queued, error)
        self._answer(queued, result)
        return "done", None

    def _answer(self, queued: QueuedEvent, result: object) -> None:
        if queued.reply is not None:
            summary = str(in_full(result))[:_FULL_LENGTH] if self._in_full else summary_of(result)
            name = type(queued.event).__name__
            self._c.audit.record(ReplyRecord(queued.number, name, summary, _remaining_of(result)))
            queued.answer(result)

    async def _moved(self, queued: QueuedEvent, moved: ControllerMoved) -> tuple[str, str]:
        log.warning("lost the role to another controller", reason=str(moved))
        queued.fail(NotController(str(moved)))
        end_term(self._c, "fenced", str(moved))
        # The watch on /controller brings the next round; this one covers the case that it is still ours.
        self._c.queue.put(Reelect())
        return "moved", str(moved)

    async def _failed(self, queued: QueuedEvent, error: Exception) -> tuple[str, str]:
        """A defect. Before the first write or change: answer and go on. After it: begin a new term."""
        name = type(queued.event).__name__
        reason = f"{type(error).__name__}: {error}"
        log.error("event failed", event_name=name, exc_info=error)
        queued.fail(CallFailed(f"{name} failed, see the log: {reason}"))
        what = "invariant broken" if isinstance(error, InvariantBroken) else "event failed"
        self._c.audit.record(AlarmRecord(what, f"{name}: {reason}"))
        # Changes that were recorded and sent to brokers already count as well.
        has_changed = self._c.context.change_count > self._changes_before
        if self._c.is_active and (self._watch.has_written or has_changed):
            await self._recover(f"{name} {type(error).__name__}")
        return "error", reason

    async def _recover(self, cause: str) -> None:
        """The context may differ from ZooKeeper now: reload everything, or give up when that keeps happening."""
        if self._is_hopeless(cause):
            log.critical("stopped contending after repeated failures", cause=cause)
            self._c.audit.record(AlarmRecord("stopped contending", cause))
            self._c.role.has_given_up = True
            await self._retreat("the same failure came back again and again; an operator's takeover ends this")
            return
        try:
            await begin_new_term(self._c)
        except ControllerMoved as moved:
            end_term(self._c, "fenced", str(moved))
            self._c.queue.put(Reelect())  # as after any ControllerMoved: it may still be ours
        except StoreUnavailable as gone:
            end_term(self._c, "unavailable", str(gone))
        except Exception as error:
            log.exception("reload failed")
            self._c.audit.record(AlarmRecord("reload failed", f"{type(error).__name__}: {error}"))
            backoff = 2.0 ** len(self._failures)
            self._c.role.stand_by_until = self._c.clock.monotonic() + backoff
            await self._retreat(f"the reload failed: {error}")
            self._c.timers.put_later(backoff, Reelect())

    async def _retreat(self, reason: str) -> None:
        try:
            await give_up_role(self._c, reason)
        except (ControllerMoved, StoreUnavailable) as gone:
            log.warning("lost the role before it was given up", reason=str(gone))
            end_term(self._c, "fenced", str(gone))

    def _is_hopeless(self, cause: str) -> bool:
        now = self._c.clock.monotonic()
        self._failures.append((now, cause))
        while self._failures[0][0] < now - FAILURE_WINDOW_S:
            self._failures.popleft()
        return sum(1 for _, earlier in self._failures if earlier == cause) >= FAILURES_UNTIL_GIVING_UP


def _remaining_of(reply: object) -> int | None:
    """How many partitions the broker that asked, or was drained, still leads; None: the reply does not say."""
    match reply:
        case ControlledShutdownReply(error=KafkaError.NONE) | DrainReply():
            return len(reply.remaining)
        case _:
            return None


def summary_of(reply: object) -> str:
    """A reply as a person reads it; of what is large only its size, because it may have 100,000 rows."""
    return "done" if reply is None else _said(reply)[:_SUMMARY_LENGTH]


def _said(value: object) -> str:
    if isinstance(value, str):
        return value if _word(value) else repr(value)
    if isinstance(value, KafkaError):
        return value.name
    if isinstance(value, Refusal):
        return f"{value.error.name} ({value.text})" if value.text else value.error.name
    if is_dataclass(value) and not isinstance(value, type):
        return ", ".join(_said_of_fields(value)) or "ok"
    if not isinstance(value, Collection) or isinstance(value, bytes | TopicPartition):
        return "none" if value is None else str(value)
    return _said_of_many(value)


def _said_of_fields(value: "DataclassInstance") -> Iterator[str]:
    """The fields that differ from their defaults."""
    for field in fields(value):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if (own := getattr(value, field.name)) != default:
            yield f"{field.name} {_said(own)}"


def _said_of_many(values: Collection[Any]) -> str:
    if isinstance(values, tuple) and isinstance(defaults := getattr(values, "_field_defaults", None), dict):
        named = zip(values._fields, values, strict=True)  # type: ignore[attr-defined]  # it is a named tuple
        return ", ".join(f"{name} {_said(each)}" for name, each in named if each != defaults.get(name, MISSING))
    if len(values) > _DETAIL_FIELDS:
        return f"<{len(values)}>"
    if isinstance(values, Mapping):  # by what it is about: nothing said of it is good
        parts = (f"{_said(key)}: {'ok' if each is None else _said(each)}" for key, each in values.items())
        return "; ".join(parts) or "none"
    return ",".join(map(_said, sorted(values) if isinstance(values, AbstractSet) else values)) or "none"


def detail_of(event: Event) -> dict[str, object]:
    """The fields of an event for the audit log; long ones only by their size."""
    detail: dict[str, object] = {}
    for name in (field.name for field in fields(event)):
        value = getattr(event, name)
        sized = isinstance(value, Collection) and not isinstance(value, str | bytes)
        detail[name] = len(value) if sized else _plain(value)
        if len(detail) == _DETAIL_FIELDS:
            break
    return detail


def _plain(value: object) -> object:
    """A small record, such as who asks, by its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value


def full_detail_of(event: Event) -> dict[str, object]:
    """Every field of an event with all that is in it, up to ``MAX_ROWS`` items each."""
    return {field.name: in_full(getattr(event, field.name)) for field in fields(event)}


def in_full(value: object) -> object:
    """A value in plain types; of bytes only how many they are, because they may be a secret."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: in_full(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): in_full(item) for key, item in islice(value.items(), MAX_ROWS)}
    if isinstance(value, Collection) and not isinstance(value, str):
        return [in_full(item) for item in islice(value, MAX_ROWS)]
    return value
