"""Keeps long passes over many partitions from holding the event loop: they give it a turn every few milliseconds.

Heartbeats to ZooKeeper, answers of brokers and callers of the HTTP server share the loop with the event task. A pass
over 100,000 partitions takes a good part of a second, so whoever makes one calls ``breathe`` now and then.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.005
"""So many seconds a pass may keep the loop before it gives it a turn."""


THREAD_SWITCH_S: Final = 0.001
"""A thread may compute for so long before it has to let go of the interpreter for one that waits; Python's is 5 ms."""


def favour_the_loop() -> None:
    """Let the loop wait for less after each of its system calls, while ZooKeeper's thread or the audit log's computes.

    For the whole process. An event makes hundreds of such calls, and each used to cost up to five milliseconds.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)


def loop_time() -> float:
    """The clock of the running loop; before there is one, none is waited for, so any time will do."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


class Pace:
    """One for each pass; it counts from when it was made."""

    def __init__(self, slice_s: float = SLICE_S, clock: Callable[[], float] = loop_time) -> None:
        """``clock`` gives seconds that never go back."""
        self._slice_s = slice_s
        self._clock = clock
        self._since = clock()

    @property
    def is_due(self) -> bool:
        """Whether the slice is used up: for callers who would rather not await for nothing."""
        return self._clock() - self._since >= self._slice_s

    async def breathe(self) -> None:
        """Give the loop a turn if the slice is used up; cheap otherwise, yet not for every single partition."""
        if self.is_due:
            await asyncio.sleep(0)
            self._since = self._clock()


def sliced(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in slices of at most ``size``, in order; nothing for no items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
