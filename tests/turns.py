"""Counts the iterations of the event loop, so that a test can check without a clock that a long pass yielded."""

import asyncio
from types import TracebackType
from typing import Self


class Turns:
    """The number of iterations of the loop during the block."""

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
