"""Keeps long passes over many partitions from holding the event loop: they give it a turn every few milliseconds.

Heartbeats to ZooKeeper, answers of brokers and callers of the HTTP server share the loop with the event task. A pass
over 100,000 partitions takes a good part of a second, so whoever makes one calls ``breathe`` now and then.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.005
"""So many seconds a pass may keep the loop before it gives it a turn."""
READ_SLICE_S: Final = 0.003
"""The same for passes that are made for readers."""
HOLD_BACK_S: Final = 0.02
"""So long at most they wait for what is more urgent, each time."""
_LOOK_AGAIN_S: Final = 0.001

THREAD_SWITCH_S: Final = 0.001
"""A thread may compute for so long before it has to let go of the interpreter for one that waits; Python's is 5 ms."""


def favour_the_loop() -> None:
    """Let the loop wait for less after each of its system calls, while ZooKeeper's thread or the audit log's computes.

    For the whole process. An event makes hundreds of such calls, and each used to cost up to five milliseconds.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)


Turn = Callable[[], Awaitable[None]]
"""Lets others go first, and ends when one may go on."""


async def next_round() -> None:
    """Let whatever is ready go first."""
    await asyncio.sleep(0)


def loop_time() -> float:
    """The clock of the running loop; before there is one, none is waited for, so any time will do."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


class Pace:
    """One for each pass; it counts from when it was made."""

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
        """Whether the slice is used up: for callers who would rather not await for nothing."""
        return self._clock() - self._since >= self._slice_s

    async def breathe(self) -> None:
        """Give the loop a turn if the slice is used up; cheap otherwise, yet not for every single partition."""
        if self.is_due:
            await self._turn()
            self._since = self._clock()

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Take the steps of a long computation, give the loop a turn when the slice is used up, return the result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.breathe()


def never() -> bool:
    """Nothing is more urgent."""
    return False


class Turnstile:
    """For passes that must not add up: one slice of one of them at a time, and a round of the loop without any.

    They go on in the order in which they came to wait, so a short one is not held up by long ones. Whatever else
    the loop has to do comes round between two slices, however many passes there are. While something more urgent is
    under way they hold back for a while: even if it only waits for ZooKeeper's answer, the threads that bring the
    answer need the interpreter.
    """

    def __init__(self, is_urgent: Callable[[], bool] = never) -> None:
        """``is_urgent``: whether something is under way that one slice would delay noticeably."""
        self._is_urgent = is_urgent
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_turning = False
        self._since = loop_time()
        """When somebody went on, or the first began to wait."""

    async def pace(self) -> Pace:
        """The pace of one more pass, when it is its turn for the first time."""
        await self._turn()
        return Pace(READ_SLICE_S, turn=self._turn)

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


def sliced(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in slices of at most ``size``, in order; nothing for no items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
