"""Reading beside other work, within one event: ZooKeeper answers while we take in what it said before.

Nothing is written so: a deposition in the middle of a write must find nothing else under way.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from controllerd.errors import ControllerMoved

T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Run ``work`` beside the block, which ends when both have ended.

    When one of them fails the other is cancelled, and the failure is raised as it is; a deposition before any other.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group.create_task(work)
    except BaseExceptionGroup as failed:
        raise min(failed.exceptions, key=lambda failure: not isinstance(failure, ControllerMoved)) from None
