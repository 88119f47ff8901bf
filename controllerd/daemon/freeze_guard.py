"""The freeze guard: after the process was frozen, nothing is sent until ZooKeeper has confirmed the controller epoch.

The danger. A process can be frozen without its knowledge: by SIGSTOP, by a suspended virtual machine, by a host without
memory. If that takes longer than its session timeout, ZooKeeper expires the session, and another controller is elected.
The frozen process learns of it only some time after it runs again. Its writes are harmless, because each of them
requires the version of ``/controller_epoch`` that its own term won. Its requests to brokers have no such fence. A
broker refuses a request with an old controller epoch only after it has received one with the new epoch. Until then it
would act on stale decisions: follow a former leader, or delete a replica that is assigned again.

The rule. From the moment at which a frozen process runs again, not a byte may leave before ZooKeeper has confirmed that
the epoch is still the newest. Until then the leadership is in doubt. Two checks of the clock ensure this:

- Each time that the event loop wakes up, before any callback that became ready runs (``WakingSelector``). A socket that
  is ready for writing is such a callback. Without this check, the rest of a request that was being sent at the freeze
  would leave first.
- Each time that a sender asks for permission (``may_send``), because the process may have been frozen since the event
  loop woke up.

When a doubt begins, ``on_doubt`` closes the connections to brokers at once, so that no buffered rest of a request can
leave later. The senders repeat unanswered requests on a new connection, after the doubt has ended.

The clock must count the time during which the machine is suspended (``CLOCK_BOOTTIME``). The limit must be shorter than
the session timeout that ZooKeeper granted, because the server counts from the last ping that it received.

The end of a doubt. ``daemon.instance`` first syncs with ZooKeeper, because a server that lags behind could confirm a
lost role, and then reads the epoch. The process may be frozen once more between the reading and the response. So a
confirmation ends a doubt only if no newer doubt has begun since it was requested (``doubts``).
"""

import asyncio
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey


class FreezeGuard:
    """Puts the leadership in doubt after the process was frozen for longer than a limit.

    The limit follows the session timeout that ZooKeeper granted, which may change with every connection. A freeze
    during which it changed is compared with the shorter limit. The thread that connects runs beside the event loop, so
    the limit at the time of the freeze is unknown.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float], on_doubt: Callable[[], None]) -> None:
        """``clock`` gives seconds that include the time while the machine is suspended.

        ``on_doubt`` is called at the moment at which a doubt begins, and stops all sending.
        """
        self._limit_s = limit_s
        self._on_doubt = on_doubt
        self._clock = clock
        self._seen_at = clock()
        self.doubts = 0
        """The number of doubts so far. A confirmation that was requested before the latest one is void."""
        self.reason = ""

    def set_limit(self, limit_s: float) -> None:
        """Set the limit in seconds. A freeze that is longer puts the leadership in doubt."""
        self._limit_s = min(self._limit_s, limit_s)
        self.tick()
        self._limit_s = limit_s

    @property
    def is_in_doubt(self) -> bool:
        """Whether another controller may be active."""
        return self.reason != ""

    def tick(self) -> None:
        """Check the clock. Must be called several times within the limit while the process runs."""
        now = self._clock()
        if now - self._seen_at > self._limit_s:
            self.put_in_doubt("the process was suspended")
        self._seen_at = now

    def put_in_doubt(self, reason: str) -> None:
        """Begin a doubt: nothing may be sent until ``revalidated``."""
        self.doubts += 1
        self.reason = reason
        self._on_doubt()

    def may_send(self) -> bool:
        """Whether bytes may be sent. Checks the clock itself, because a sender may run before the next tick."""
        self.tick()
        return not self.is_in_doubt

    def revalidated(self, doubts: int) -> None:
        """End the doubt, if there was no newer one: ``doubts`` is the count when the confirmation was requested."""
        if doubts == self.doubts:
            self.reason = ""


class WakingSelector(DefaultSelector):
    """A selector that calls ``on_waking`` each time it returns, before the event loop runs the ready callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.on_waking: Callable[[], None] = _nothing

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait for ready sockets, then call ``on_waking``."""
        ready = super().select(timeout)
        self.on_waking()
        return ready

    def loop(self) -> asyncio.AbstractEventLoop:
        """Make an event loop with this selector."""
        return asyncio.SelectorEventLoop(self)


def _nothing() -> None:
    """Do nothing, until a guard is set."""
