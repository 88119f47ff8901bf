"""Counts the turns of the event loop, so that a test can say that a long pass let go of it, without a clock."""

import asyncio
from types import TracebackType
from typing import Self


class Turns:
    """How often the loop came round while the block was open."""

    def __init__(self) -> None:
        self.count = -1

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._turn()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handle.cancel()

    def _turn(self) -> None:
        self.count += 1
        self._handle = self._loop.call_soon(self._turn)
