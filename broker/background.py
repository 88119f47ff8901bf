"""The tasks of one broker, and the signal by which they wake each other.

No task outlives the broker, and the failure of a task is always raised.
"""

import asyncio
from collections.abc import Coroutine

import structlog

log = structlog.get_logger(__name__)


class Background:
    """Tasks that run until the broker closes. All methods must be called in the event loop's thread."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def spawn(self, name: str, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run ``work`` in a task; the caller may cancel it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def failure(self) -> None:
        """Wait until a task fails, and raise its error; wait for ever if none fails."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Cancel all tasks and wait for them. :raises Exception: the error of the first task that failed, if any."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failed.done():
            self._failed.result()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._failed.done():
            log.error("broker task failed", task=task.get_name(), exc_info=error)
            self._failed.set_exception(error)
            # Mark the error as retrieved: the caller may read it only when the broker closes.
            self._failed.exception()


class Signal:
    """Wake all tasks that wait at this moment.

    A task has to check its condition and call ``wait`` without another await between, or it may miss a ``notify``.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the next ``notify``; False when ``timeout_s`` passed first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
