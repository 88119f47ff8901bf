"""The tasks of one broker, and how they wake each other. None outlives the broker, and no defect in one is silent."""

import asyncio
from collections.abc import Coroutine

import structlog

log = structlog.get_logger(__name__)


class Background:
    """Tasks that run until the broker closes. All methods belong to the event loop's thread."""

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
        """Wait until a task fails, and raise what it raised; for ever if none does."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Cancel all and wait for them. :raises Exception: the first that a task failed with, if any did."""
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
            # The caller may look only when the broker closes.
            self._failed.exception()


class Signal:
    """Wakes all tasks that wait at this moment. Look at the condition first, then wait, without awaiting between."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait."""
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
