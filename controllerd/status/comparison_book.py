"""Comparisons while they are under way, and what the last of them found: who knows the id of one may ask after it.

Whoever asks for what is compared already joins, so that of each kind at most one is under way or waits. They end with
the server.
"""

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import structlog

from controllerd.errors import ControllerdError
from controllerd.pace import loop_time
from controllerd.status.comparison import Progress
from controllerd.status.problems import Refused
from controllerd.status.schema.work import DifferenceList

log = structlog.get_logger(__name__)

KEPT_S: Final = 600.0
MAX_KEPT: Final = 4

Work = Callable[[bool, Progress], Coroutine[Any, Any, DifferenceList]]
"""Compares, with brokers or without, and tells how far it is."""


class LiveComparison:
    """One comparison; it goes on whether anybody waits for it or not."""

    def __init__(self, work: Work, clock: Callable[[], float], *, with_brokers: bool) -> None:
        self.id: Final = uuid4().hex[:16]
        self.with_brokers: Final = with_brokers
        self.progress: Final = Progress(clock)
        self.ended: float | None = None
        """When, by the clock; None while it is under way."""
        self._clock = clock
        self._began = clock()
        self._task = asyncio.create_task(work(with_brokers, self.progress), name=f"comparison {self.id}")
        self._task.add_done_callback(self._end)

    @property
    def elapsed_s(self) -> float:
        """Since it was asked for."""
        return (self._clock() if self.ended is None else self.ended) - self._began

    @property
    def result(self) -> DifferenceList | None:
        """What was found; None while it is under way.

        :raises ControllerdError: why it could not be compared. :raises Refused: it failed by a defect.
        """
        if not self._task.done():
            return None
        error = self._task.exception()
        if error is None:
            return self._task.result()
        if isinstance(error, ControllerdError):
            raise error
        detail = f"the comparison failed: {type(error).__name__}"
        hint = "the cause is in the log of the daemon"
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", detail, hint) from error

    async def wait(self, at_most_s: float) -> None:
        """Until its end, but not for longer than this."""
        await asyncio.wait({self._task}, timeout=at_most_s)

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def _end(self, task: "asyncio.Task[DifferenceList]") -> None:
        self.ended = self._clock()
        defect = None if task.cancelled() else task.exception()
        if defect is not None and not isinstance(defect, ControllerdError):
            log.error("comparison failed", comparison=self.id, exc_info=defect)


class ComparisonBook:
    """All comparisons that are known: those under way, and the last few that ended."""

    def __init__(self, work: Work, clock: Callable[[], float] = loop_time) -> None:
        """``clock`` gives seconds that never go back."""
        self._work = work
        self._clock = clock
        self._known: dict[str, LiveComparison] = {}

    def begin(self, *, with_brokers: bool) -> LiveComparison:
        """A new one, or the one of this kind that is under way or waits."""
        self._sweep()
        for known in self._known.values():
            if known.ended is None and known.with_brokers == with_brokers:
                return known
        new = LiveComparison(self._work, self._clock, with_brokers=with_brokers)
        self._known[new.id] = new
        return new

    def find(self, comparison_id: str) -> LiveComparison | None:
        """One that is under way, or among the last few that ended; None for any other."""
        self._sweep()
        return self._known.get(comparison_id)

    async def close(self) -> None:
        """End what is under way. Harmless when nothing is."""
        for known in self._known.values():
            await known.close()

    def _sweep(self) -> None:
        """Forget what ended long ago, and the oldest of too many."""
        ended = sorted((known.ended, known.id) for known in self._known.values() if known.ended is not None)
        horizon, surplus = self._clock() - KEPT_S, len(ended) - MAX_KEPT
        for number, (at, comparison_id) in enumerate(ended):
            if number < surplus or at < horizon:
                del self._known[comparison_id]
