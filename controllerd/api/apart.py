"""Work on very large messages beside the event loop, so that nobody else waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from wire.api_codec import Request

_P = ParamSpec("_P")
_T = TypeVar("_T")

SMALL: Final = 2_000
"""So many rows are handled in a few milliseconds; a thread would cost more than it gives."""
_BYTES_PER_ROW: Final = 10
"""Of the smallest row that makes a request large: a partition and its replicas, or a topic and its counts."""
_WORKERS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="large-message")
"""Of its own: in the loop's, work that clients choose would keep names of brokers from being looked up."""


def rows_in(request: Request) -> int:
    """How many rows a request may have, from its size."""
    return len(request.frame) // _BYTES_PER_ROW


async def apart(rows: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """The result of ``work``, which must be pure: of many rows it is made in a thread, with turns for the loop."""
    if rows <= SMALL:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, partial(work, *args, **kwargs))


async def read(decode: Callable[[Request], _T], request: Request) -> _T:
    """What a request says. :raises MalformedMessage: what ``decode`` raises."""
    return await apart(rows_in(request), decode, request)
