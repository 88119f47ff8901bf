"""Work on very large messages beside the event loop, so that nobody else waits for it."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

SMALL: Final = 2_000
"""So many rows are handled in a few milliseconds; a thread would cost more than it gives."""


async def apart(rows: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """The result of ``work``, which must be pure: of many rows it is made in a thread, with turns for the loop."""
    if rows <= SMALL:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
