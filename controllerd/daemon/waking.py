"""A look at the clock whenever the event loop wakes up, before anything that became ready meanwhile may run.

Sockets that are ready to be written to belong to it: without this look, the rest of a request that was under way when
the process was frozen would leave before anybody has asked whether the role is still ours.
"""

import asyncio
from collections.abc import Callable
from selectors import DefaultSelector, SelectorKey


class WakingSelector(DefaultSelector):
    """A selector that calls ``on_waking`` each time it returns; until somebody sets it, nothing is called."""

    def __init__(self) -> None:
        super().__init__()
        self.on_waking: Callable[[], None] = _nothing

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """As the selector does."""
        ready = super().select(timeout)
        self.on_waking()
        return ready

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop over this selector."""
        return asyncio.SelectorEventLoop(self)


def _nothing() -> None:
    """Nobody looks yet."""
