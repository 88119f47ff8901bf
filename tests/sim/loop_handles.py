"""Cheap handles of the loop: a simulated second consists of hundreds of them."""

from asyncio import Handle, TimerHandle
from contextvars import Context, copy_context
from typing import Any


class LoopHandle(Handle):
    """A handle without debugging, because the loop spends most of its time here."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class LoopTimer(TimerHandle):
    """A timer without debugging, like ``LoopHandle``."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        self._when = when
        self._scheduled = True
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None
