"""Makes the event loop wait, for a bounded time, until the writer thread has written a record.

``controllerd.audit.writer`` says why the wait exists and why it is bounded.
"""

import threading
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import anyio


class _Waiter(NamedTuple):
    seq: int
    loop: AbstractEventLoop
    written: anyio.Event


class Acceptance:
    """The number of the newest written record, and the tasks that wait for a number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written = 0
        self._waiters: list[_Waiter] = []

    @property
    def written(self) -> int:
        """The number of the newest written record."""
        return self._written

    def reached(self, seq: int) -> None:
        """Note that all records up to ``seq`` are written, and wake their waiters. Called by the writer thread."""
        with self._lock:
            self._written = max(self._written, seq)
            ready = [waiter for waiter in self._waiters if waiter.seq <= self._written]
            self._waiters = [waiter for waiter in self._waiters if waiter.seq > self._written]
        _wake(ready)

    def release(self) -> None:
        """Wake all waiters, because nothing will be written soon."""
        with self._lock:
            ready, self._waiters = self._waiters, []
        _wake(ready)

    async def wait(self, seq: int, timeout_s: float) -> bool:
        """Wait until ``seq`` is written. False if the time ran out or ``release`` was called."""
        waiter = _Waiter(seq, get_running_loop(), anyio.Event())
        with self._lock:
            if self._written >= seq:
                return True
            self._waiters.append(waiter)
        with anyio.move_on_after(timeout_s):
            await waiter.written.wait()
        with self._lock:
            self._waiters = [other for other in self._waiters if other is not waiter]
        return self._written >= seq


def _wake(waiters: Iterable[_Waiter]) -> None:
    for waiter in waiters:
        with suppress(RuntimeError):  # the event loop is closed, so the waiter is gone
            waiter.loop.call_soon_threadsafe(waiter.written.set)
