"""Cells that run a little before their tests ask what became of them, so that rows do not wait for one another."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tests.tools.cells import TOLD, Cell

IN_FLIGHT: Final = 3
"""So many cells; what they wait for is not always a tool."""


class Ahead:
    """The cells of one entrance that have begun; ``play`` runs one."""

    def __init__(self, play: Callable[[Cell], Awaitable[None]]) -> None:
        self._play = play
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._begun: dict[str, asyncio.Task[None]] = {}
        self._told: defaultdict[str, list[str]] = defaultdict(list)

    async def outcome(self, cell: Cell, following: Iterable[Cell]) -> None:
        """Wait for a cell and show what its tools printed; those that follow may begin. :raises: what it raised."""
        for each in (cell, *following):
            if each.id not in self._begun:
                self._begun[each.id] = asyncio.create_task(self._run(each))
        try:
            await self._begun[cell.id]
        finally:
            print(*self._told[cell.id], sep="\n")

    async def _run(self, cell: Cell) -> None:
        async with self._room:
            TOLD.set(self._told[cell.id])
            await self._play(cell)

    async def end(self) -> None:
        """Give up what nobody has asked for."""
        left = [task for task in self._begun.values() if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
