"""Runs cells a little before the tests ask for their outcome, so that cells do not wait for one another."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tests.tools.cells import TOOL_OUTPUT, Cell

IN_FLIGHT: Final = 3
"""The number of cells that may run at once; a cell does not always wait for a tool."""


class Ahead:
    """The cells of one bootstrap server that have begun; ``play`` runs one."""

    def __init__(self, play: Callable[[Cell], Awaitable[None]]) -> None:
        self._play = play
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._begun: dict[str, asyncio.Task[None]] = {}
        self._output: defaultdict[str, list[str]] = defaultdict(list)

    async def outcome(self, cell: Cell, following: Iterable[Cell]) -> None:
        """Wait for a cell and print its tool output; following cells may begin. :raises: the error of the cell."""
        for each in (cell, *following):
            if each.id not in self._begun:
                self._begun[each.id] = asyncio.create_task(self._run(each))
        try:
            await self._begun[cell.id]
        finally:
            print(*self._output[cell.id], sep="\n")

    async def _run(self, cell: Cell) -> None:
        async with self._room:
            TOOL_OUTPUT.set(self._output[cell.id])
            await self._play(cell)

    async def end(self) -> None:
        """Cancel the cells that no test has asked for."""
        left = [task for task in self._begun.values() if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
