"""Very large messages: they are decoded and encoded in threads, so that the event loop keeps serving others.

A request about every partition of a cluster takes hundreds of milliseconds to decode. In that time the loop could
neither feed the watchdog nor answer a broker. A small message is handled at once, since a thread costs more.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from wire.api_codec import Request

_P = ParamSpec("_P")
_T = TypeVar("_T")

SMALL: Final = 2_000
"""The most rows that are handled in the loop, in a few milliseconds."""
_BYTES_PER_ROW: Final = 10
"""Bytes of the smallest row of a large request: a partition and its replicas, or a topic and its counts."""
_WORKERS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="large-message")
"""Threads for large messages alone: in the pool of the loop they would delay the name resolution of brokers."""


def rows_in(request: Request) -> int:
    """Return the most rows that a request of this size can have."""
    return len(request.frame) // _BYTES_PER_ROW


async def run_in_thread_if_large(rows: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return the result of ``work``, which must be pure; it runs in a thread if there are more than ``SMALL`` rows."""
    if rows <= SMALL:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, partial(work, *args, **kwargs))


async def decode_request(decode: Callable[[Request], _T], request: Request) -> _T:
    """Decode a request. :raises MalformedMessage: bad bytes."""
    return await run_in_thread_if_large(rows_in(request), decode, request)
