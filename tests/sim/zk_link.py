"""The messages between a simulated client and its server, which arrive late, in order or never."""

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Final

from tests.sim import zk_wire as wire
from tests.sim.loop import VirtualLoop

_LATE_S: Final = 0.001
_LATEST_READER_S: Final = 0.05


class Inbox:
    """The messages on the way to a client, in order. A frozen client reads them after it was thawed, a little late."""

    def __init__(
        self, loop: VirtualLoop, context: Context, random: Callable[[], float], delay: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._context = context
        self._random = random
        self._delay = delay
        self._entries: deque[tuple[float, Callable[..., None], tuple[object, ...]]] = deque()
        self._timer: TimerHandle | None = None
        self._put_at = -1.0
        self._arrives_at = 0.0
        self._reads_from = 0.0

    def put(self, act: Callable[..., None], *arguments: object) -> None:
        """Call ``act`` when the message has arrived; messages of one instant arrive together."""
        now = self._loop.time()
        if self._put_at != now:
            self._put_at = now
            self._arrives_at = max(self._arrives_at, now + self._delay())
        self._entries.append((self._arrives_at, act, arguments))
        if self._timer is None:
            self._timer = self._loop.call_at(self._arrives_at, self._drain, context=self._context)

    def lose_all(self) -> None:
        """Lose all messages on the way."""
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._put_at = -1.0
        self._arrives_at = 0.0

    def _drain(self) -> None:
        self._timer = None
        entries, now = self._entries, self._loop.time()
        if now - max(entries[0][0], self._reads_from) > _LATE_S:
            self._reads_from = now + _LATEST_READER_S * self._random()
        while entries and max(entries[0][0], self._reads_from) <= now:
            _, act, arguments = entries.popleft()
            act(*arguments)
        if entries and self._timer is None:
            due = max(entries[0][0], self._reads_from)
            self._timer = self._loop.call_at(due, self._drain, context=self._context)


class RequestFault:
    """A fault that waits for a matching request."""

    def __init__(self, of: int | None, skip: int, for_s: float, *, is_committed: bool) -> None:
        """``is_committed``: the server carries the request out before the connection breaks."""
        self.for_s = for_s
        self.is_committed = is_committed
        self.name = f"{'reply' if is_committed else 'request'} {of} lost"
        self._of = of
        self._skip = skip

    def strikes(self, kind: int) -> bool:
        """Whether the fault applies to a request with that opcode."""
        if self._of not in {None, kind}:
            return False
        self._skip -= 1
        return self._skip < 0


def fault_for(message: bytes, faults: list[RequestFault]) -> RequestFault | None:
    """Find the first fault that applies to this request, and use it up."""
    kind = wire.head_of(message)[1]
    for fault in faults:
        if fault.strikes(kind):
            faults.remove(fault)
            return fault
    return None
