"""Slices long passes over many partitions, so that the event loop gets a turn every few milliseconds.

Heartbeats to ZooKeeper, answers of brokers and clients of the HTTP server share the loop with the event task, and a
pass over 100,000 partitions takes a good part of a second. So each pass goes slice by slice: after a slice it looks at
the clock, and yields to the loop when its time is used up. The event task has one ``Slicer`` for all its passes,
because many short passes in a row hold the loop as long as one long pass does.
"""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from controllerd.core.model import BrokerId, TopicPartition

T = TypeVar("T")

SLICE: Final = 1_000
"""Partitions of a pass between two looks at the clock."""
SLICE_S: Final = 0.005
"""Seconds that a pass may hold the loop before it yields."""
READ_SLICE_S: Final = 0.003
"""The same for passes that are made for readers."""
HOLD_BACK_S: Final = 0.02
"""Seconds that a pass for readers waits at most for more urgent work, each time."""
_LOOK_AGAIN_S: Final = 0.001

THREAD_SWITCH_S: Final = 0.001
"""Seconds that a thread may compute before it hands the interpreter to a thread that waits; Python's own is 5 ms."""


def prioritise_event_loop() -> None:
    """Shorten the wait of the loop after each of its system calls, while another thread computes.

    For the whole process. An event makes hundreds of such calls, and after each of them the thread of ZooKeeper or of
    the audit log could keep the interpreter for up to five milliseconds.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)


Turn = Callable[[], Awaitable[None]]
"""Lets other tasks run first, and returns when the pass may go on."""


async def next_round() -> None:
    """Let every task that is ready run first."""
    await asyncio.sleep(0)


def loop_time() -> float:
    """The clock of the running loop; 0.0 while there is no loop, because then nothing waits for a turn."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


class Slicer:
    """Divides passes into slices. Its clock starts when it is made."""

    def __init__(
        self,
        slice_s: float = SLICE_S,
        clock: Callable[[], float] = loop_time,
        turn: Turn = next_round,
    ) -> None:
        """``clock`` gives seconds that never go back."""
        self._slice_s = slice_s
        self._clock = clock
        self._turn = turn
        self._since = clock()

    @property
    def is_due(self) -> bool:
        """Whether the time of the slice is used up, for callers that avoid an ``await`` that does nothing."""
        return self._clock() - self._since >= self._slice_s

    async def yield_to_loop(self) -> None:
        """Give the loop a turn if the time is used up. Otherwise cheap, but too dear for every single partition."""
        if self.is_due:
            await self._turn()
            self._since = self._clock()

    async def for_each_slice(
        self, items: Sequence[T], step: Callable[[Sequence[T]], object], size: int = SLICE
    ) -> None:
        """Call ``step`` with each slice of at most ``size`` items, in order, and yield to the loop after each call."""
        for part in sliced(items, size):
            step(part)
            await self.yield_to_loop()

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items as they are now, one by one; the loop gets its turn after each slice of them."""
        for part in sliced(list(items), SLICE):
            for item in part:
                yield item
            await self.yield_to_loop()

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Take the steps of a long computation, yield to the loop when the time is used up, and return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.yield_to_loop()


def sliced(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in slices of at most ``size``, in order; nothing for no items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def in_order(partitions: Iterable[TopicPartition], slicer: Slicer) -> list[TopicPartition]:
    """As ``sorted``, topic by topic: to sort a hundred thousand partitions at once holds the loop for too long."""
    by_topic: dict[str, list[TopicPartition]] = {}
    async for tp in slicer.each(partitions):
        by_topic.setdefault(tp.topic, []).append(tp)
    found: list[TopicPartition] = []
    for topic in sorted(by_topic):
        found += sorted(by_topic[topic])
        await slicer.yield_to_loop()
    return found


async def by_broker(
    rows: AsyncIterator[tuple[TopicPartition, Iterable[BrokerId]]],
) -> dict[BrokerId, list[TopicPartition]]:
    """Group partitions by the brokers that each row names."""
    found: dict[BrokerId, list[TopicPartition]] = {}
    async for tp, brokers in rows:
        for broker in brokers:
            found.setdefault(broker, []).append(tp)
    return found


def never() -> bool:
    """Nothing is more urgent."""
    return False


class Turnstile:
    """Lets passes for readers run one slice at a time, with a round of the loop between two slices.

    The passes go on in the order in which they came to wait, so that long passes do not hold up a short one. However
    many passes there are, the rest of the loop's work comes between two of their slices. While something more urgent
    is under way the passes hold back for a while. That also holds while the urgent work only waits for ZooKeeper's
    answer, because the threads that bring the answer need the interpreter.
    """

    def __init__(self, is_urgent: Callable[[], bool] = never) -> None:
        """``is_urgent``: whether something is under way that one slice would delay noticeably."""
        self._is_urgent = is_urgent
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_turning = False
        self._since = loop_time()
        """When the last pass went on, or the first one began to wait."""

    async def slicer(self) -> Slicer:
        """Return the slicer of one more pass, when it is its turn for the first time."""
        await self._turn()
        return Slicer(READ_SLICE_S, turn=self._turn)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append(waiter)
        if not self._is_turning:
            self._is_turning, self._since = True, loop.time()
            loop.call_soon(self._rest)
        await waiter

    def _rest(self) -> None:
        asyncio.get_running_loop().call_soon(self._let_one_go)

    def _let_one_go(self) -> None:
        loop = asyncio.get_running_loop()
        if self._is_urgent() and loop.time() - self._since < HOLD_BACK_S:
            loop.call_later(_LOOK_AGAIN_S, self._let_one_go)
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # or its reader has left
                waiter.set_result(None)
                self._since = loop.time()
                loop.call_soon(self._rest)
                return
        self._is_turning = False
