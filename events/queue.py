"""The one queue: every cause enters here, one task drains it, every call is answered exactly once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

from controllerd.errors import NotController
from events.base import Call, Event, Reply
from events.cluster import BrokerChange, BrokerModifications, ControllerChange, ShutdownEventThread
from events.elections import ConfigChange
from events.reassignments import PartitionReassignmentIsrChange, ZkPartitionReassignment
from events.replicas import IsrChangeNotification, LogDirEventNotification
from events.topics import PartitionModifications, TopicChange, TopicDeletion

_LOOK_THERE: Final = frozenset({
    BrokerChange,
    BrokerModifications,
    ConfigChange,
    ControllerChange,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
})  # fmt: skip
"""Events that say no more than where to look: what one that waits will find includes what came later (KAFKA-5502)."""


class QueuedEvent:
    """An event in the queue, when it came, and the reply that a caller may wait for."""

    __slots__ = ("enqueued_at", "event", "number", "reply")

    def __init__(self, event: Event, number: int, enqueued_at: float, reply: asyncio.Future[object] | None) -> None:
        self.event: Final = event
        self.number: Final = number
        self.enqueued_at: Final = enqueued_at
        self.reply: Final = reply

    def answer(self, result: object) -> None:
        """Give the result to the caller that waits. Only the first answer counts; a caller that left gets none."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(result)

    def fail(self, error: Exception) -> None:
        """Give an error to the caller that waits."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(error)

    def preempt(self) -> None:
        """The event will never run: its caller learns that we are not the controller."""
        self.fail(NotController("the event was preempted: this instance is not the active controller"))


class EventQueue:
    """One unbounded FIFO with one consumer. All methods belong to the event loop's thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` gives monotonic seconds."""
        self._clock = clock
        self._items: deque[QueuedEvent] = deque()
        self._waiting: set[Event] = set()
        self._arrived = asyncio.Event()
        self._count = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, event: Event) -> None:
        """Append an event without a caller; not again while an event waits that will see the same."""
        if type(event) in _LOOK_THERE:
            if event in self._waiting:
                return
            self._waiting.add(event)
        self._append(event, None)

    def call(self, event: Call[Reply]) -> Awaitable[Reply]:
        """Append a call; awaiting the result gives the reply or raises what the handler raised.

        :raises NotController: the call was preempted, or this instance does not lead.
        """
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        # A caller that left must not turn a late error into a warning about an exception that was never retrieved.
        reply.add_done_callback(_retrieve)
        self._append(event, reply)  # type: ignore[arg-type]  # the queue does not care for the type of the reply
        return reply

    def clear_and_put(self, event: Event) -> None:
        """Preempt everything that waits, then append ``event`` (session expiry and shutdown).

        A shutdown that waits stays, behind it: nothing calls that off.
        """
        preempted, self._items = self._items, deque()
        self._waiting.clear()
        self._append(event, None)
        for queued in preempted:
            if isinstance(queued.event, ShutdownEventThread):
                self._items.append(queued)
            else:
                queued.preempt()

    async def take(self) -> QueuedEvent:
        """The oldest event; waits while there is none."""
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        taken = self._items.popleft()
        if type(taken.event) in _LOOK_THERE:  # before it is handled: what comes from now on may come too late for it
            self._waiting.discard(taken.event)
        return taken

    def waiting(self, limit: int) -> list[tuple[QueuedEvent, float]]:
        """The next ``limit`` events, oldest first, each with how long it has waited, in seconds."""
        now = self._clock()
        return [(queued, now - queued.enqueued_at) for queued in islice(self._items, limit)]

    def oldest_age_s(self) -> float:
        """How long the next event has waited already, in seconds; 0 when the queue is empty."""
        return self._clock() - self._items[0].enqueued_at if self._items else 0.0

    def close(self) -> None:
        """Preempt all events that wait or still come, because the consumer is gone."""
        self._is_closed = True
        preempted, self._items = self._items, deque()
        self._waiting.clear()
        for queued in preempted:
            queued.preempt()

    def _append(self, event: Event, reply: asyncio.Future[object] | None) -> None:
        self._count += 1
        queued = QueuedEvent(event, self._count, self._clock(), reply)
        if self._is_closed:
            queued.preempt()
            return
        self._items.append(queued)
        self._arrived.set()


def _retrieve(reply: asyncio.Future[Reply]) -> None:
    if not reply.cancelled():
        reply.exception()
