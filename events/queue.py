"""The event queue: all events enter it, one task takes them out, and every call is answered exactly once."""

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

_COALESCED: Final = frozenset({
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
"""Events that only name a znode to read. While one waits in the queue an equal one is not added, because the read of
the first will include the later change (KAFKA-5502)."""


class QueuedEvent:
    """An event in the queue, with the time at which it was added, and the reply that a caller may wait for."""

    __slots__ = ("enqueued_at", "event", "number", "reply")

    def __init__(self, event: Event, number: int, enqueued_at: float, reply: asyncio.Future[object] | None) -> None:
        self.event: Final = event
        self.number: Final = number
        self.enqueued_at: Final = enqueued_at
        self.reply: Final = reply

    def answer(self, result: object) -> None:
        """Give the result to the caller that waits. Only the first answer counts; a cancelled call gets none."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(result)

    def fail(self, error: Exception) -> None:
        """Give an error to the caller that waits."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(error)

    def preempt(self) -> None:
        """Answer the caller with ``NotController``, because the event will never be handled."""
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
        """Append an event without a caller, unless an equal event of ``_COALESCED`` waits."""
        if type(event) in _COALESCED:
            if event in self._waiting:
                return
            self._waiting.add(event)
        self._append(event, None)

    def call(self, event: Call[Reply]) -> Awaitable[Reply]:
        """Append a call; awaiting the result gives the reply or raises what the handler raised.

        :raises NotController: the call was preempted, or this instance does not lead.
        """
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        # After the caller was cancelled, asyncio must not warn of an error that was never retrieved.
        reply.add_done_callback(_retrieve)
        self._append(event, reply)  # type: ignore[arg-type]  # the queue does not care for the type of the reply
        return reply

    def clear_and_put(self, event: Event) -> None:
        """Preempt everything that waits, then append ``event`` (session expiry and shutdown).

        A shutdown that waits is kept, behind ``event``, because a shutdown is never called off.
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
        if type(taken.event) in _COALESCED:
            # Its handler may read before a change that comes from now on, so an equal event is added again.
            self._waiting.discard(taken.event)
        return taken

    def waiting(self, limit: int) -> list[tuple[QueuedEvent, float]]:
        """The next ``limit`` events, oldest first, each with how long it has waited, in seconds."""
        now = self._clock()
        return [(queued, now - queued.enqueued_at) for queued in islice(self._items, limit)]

    def oldest_age_s(self) -> float:
        """Seconds that the next event has waited; 0 when the queue is empty."""
        return self._clock() - self._items[0].enqueued_at if self._items else 0.0

    def close(self) -> None:
        """Preempt all events that wait or are added later, because the consumer has ended."""
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
