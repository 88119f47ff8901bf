"""The guard against a process that was frozen (SIGSTOP, a suspended machine), and the selector that asks it in time.

While a process is frozen its ZooKeeper session may end and another controller may lead. From the moment it runs again
not a byte may leave before the epoch was found valid. Two looks at the clock make that sure:

- Whenever the event loop wakes up, before anything that became ready meanwhile may run. Sockets that are ready to be
  written to belong to it: without this look, the rest of a request that was under way at the freeze would leave first.
- Each time that a sender asks whether it may send, because the wake-up may be long past.
"""

import asyncio
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey


class FreezeGuard:
    """Notices that the process was frozen for so long that its session may be over: the leadership is in doubt.

    From then on nothing may be sent before the epoch was found valid, because another controller may have led
    meanwhile.

    The limit follows the session time-out that ZooKeeper granted, which may change with every
    connection. A freeze during which it changed is judged by the shorter limit: the thread that
    connects runs apart from the event loop, so that the limit that held during the freeze is not
    known.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float], on_doubt: Callable[[], None]) -> None:
        """``clock`` gives seconds that go on while the machine is suspended.

        ``on_doubt`` is called in the very moment in which the freeze is noticed, to stop what is being sent.
        """
        self._limit_s = limit_s
        self._on_doubt = on_doubt
        self._clock = clock
        self._seen_at = clock()
        self.doubts = 0
        """How often the leadership came into doubt: an answer from before the latest one says nothing."""
        self.reason = ""

    def set_limit(self, limit_s: float) -> None:
        """Set the limit: from now on a freeze of more than ``limit_s`` seconds puts the leadership in doubt."""
        self._limit_s = min(self._limit_s, limit_s)
        self.tick()
        self._limit_s = limit_s

    @property
    def is_in_doubt(self) -> bool:
        """Whether another controller may lead."""
        return self.reason != ""

    def tick(self) -> None:
        """Called several times within the limit while the process runs."""
        now = self._clock()
        if now - self._seen_at > self._limit_s:
            self.put_in_doubt("the process was suspended")
        self._seen_at = now

    def put_in_doubt(self, reason: str) -> None:
        """Another controller may lead: nothing may leave until ``revalidated``."""
        self.doubts += 1
        self.reason = reason
        self._on_doubt()

    def may_send(self) -> bool:
        """Whether bytes may leave; looks at the clock itself, because the tick may come later than the sender."""
        self.tick()
        return not self.is_in_doubt

    def revalidated(self, doubts: int) -> None:
        """The epoch was still ours when it was asked for, and there had been so many ``doubts`` then."""
        if doubts == self.doubts:
            self.reason = ""


class WakingSelector(DefaultSelector):
    """A selector that calls ``on_waking`` each time it returns; until that is set, nothing is called."""

    def __init__(self) -> None:
        super().__init__()
        self.on_waking: Callable[[], None] = _nothing

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """As the selector does."""
        ready = super().select(timeout)
        self.on_waking()
        return ready

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop over this selector."""
        return asyncio.SelectorEventLoop(self)


def _nothing() -> None:
    """There is no guard yet."""
