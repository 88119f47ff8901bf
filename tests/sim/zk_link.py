"""What lies between a simulated client and its server: messages that arrive late, in order or never."""

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
    """What is on its way to a client, in order. A frozen client reads it after it was thawed, a little late."""

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
        """Act when it has arrived; whatever is sent at one instant travels together."""
        now = self._loop.time()
        if self._put_at != now:
            self._put_at = now
            self._arrives_at = max(self._arrives_at, now + self._delay())
        self._entries.append((self._arrives_at, act, arguments))
        if self._timer is None:
            self._timer = self._loop.call_at(self._arrives_at, self._drain, context=self._context)

    def lose_all(self) -> None:
        """Nothing of it arrives."""
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


class Fault:
    """A fault that waits for a request."""

    def __init__(self, of: int | None, skip: int, for_s: float, *, is_committed: bool) -> None:
        """``is_committed``: the server carries the request out before the connection breaks."""
        self.for_s = for_s
        self.is_committed = is_committed
        self.name = f"{'reply' if is_committed else 'request'} {of} lost"
        self._of = of
        self._skip = skip

    def strikes(self, kind: int) -> bool:
        """Whether a request with that opcode is the one."""
        if self._of not in {None, kind}:
            return False
        self._skip -= 1
        return self._skip < 0


def fault_for(message: bytes, faults: list[Fault]) -> Fault | None:
    """The first fault that strikes this request, which is then used up."""
    kind = wire.head_of(message)[1]
    for fault in faults:
        if fault.strikes(kind):
            faults.remove(fault)
            return fault
    return None
