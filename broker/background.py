"""The tasks of one broker: none outlives it, and a defect in one of them is never silent."""

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
        """Run ``work`` in a task; whoever no longer needs it may cancel it."""
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
            # Whoever runs the broker may look only when it closes.
            self._failed.exception()
