"""Reads of very many znodes: while one slice is decoded, the next ones are on their way.

Decoding slice by slice also lets go of the event loop, and of the raw data, between two slices.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import Final, TypeVar

from controllerd.pace import sliced
from controllerd.zk.access import Create, Node, ZooKeeper

IN_FLIGHT: Final = 4

T = TypeVar("T")


async def read_in_slices(
    items: Sequence[T],
    size: int,
    read: Callable[[Sequence[T]], Awaitable[list[Node | None]]],
    take: Callable[[Sequence[T], list[Node | None]], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """``read`` the items in slices of ``size``, ``in_flight`` at a time, and give each slice to ``take`` at once.

    A failed read ends it, once the others under way have failed or were taken.
    """
    slices = sliced(items, size)

    async def work() -> None:
        for part in slices:
            take(part, await read(part))

    if len(items) <= size:
        await work()
        return
    for outcome in await asyncio.gather(*(work() for _ in range(in_flight)), return_exceptions=True):
        if outcome is not None:
            raise outcome


async def missing_parents(zk: ZooKeeper, path: str) -> list[Create]:
    """What creates this path and everything above it that is missing, from above to below."""
    parents = list(accumulate(path.split("/")[1:], lambda above, name: f"{above}/{name}", initial=""))[1:]
    nodes = await zk.read(parents)
    return [Create(parent, None) for parent, node in zip(parents, nodes, strict=True) if node is None]
