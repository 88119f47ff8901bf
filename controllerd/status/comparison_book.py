"""Comparisons while they are under way, and what the last of them found: who knows the id of one may ask after it.

Whoever asks for what is compared already joins, so that of each kind at most one is under way or waits. They end with
the server.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import structlog

from controllerd.errors import ControllerdError, NotController
from controllerd.pace import loop_time
from controllerd.status.comparison import Progress
from controllerd.status.problems import Refused, problem_of
from controllerd.status.schema.common import Problem
from controllerd.status.schema.work import DifferenceList

log = structlog.get_logger(__name__)

KEPT_S: Final = 600.0
MAX_KEPT: Final = 4
ROLE_LOST: Final = "the role was lost while it was compared, so what was found means nothing: ask again"

Work = Callable[[bool, Progress], Coroutine[Any, Any, DifferenceList]]
"""Compares, with brokers or without, and tells how far it is."""


class LiveComparison:
    """One comparison; it goes on whether anybody waits for it or not."""

    def __init__(self, work: Work, clock: Callable[[], float], *, with_brokers: bool, term: Hashable) -> None:
        """``term`` tells whose memory is compared."""
        self.id: Final = uuid4().hex[:16]
        self.kind: Final = (with_brokers, term)
        self.progress: Final = Progress(clock)
        self.ended: float | None = None
        """When, by the clock; None while it is under way."""
        self.found: DifferenceList | None = None
        self.problem: Problem | None = None
        """Why it found nothing."""
        self._clock = clock
        self._began = clock()
        self._over = asyncio.Event()
        self._task: asyncio.Task[DifferenceList] | None = asyncio.create_task(
            work(with_brokers, self.progress), name=f"comparison {self.id}"
        )
        self._task.add_done_callback(self._end)

    @property
    def elapsed_s(self) -> float:
        """Since it was asked for."""
        return (self._clock() if self.ended is None else self.ended) - self._began

    async def wait(self, at_most_s: float) -> None:
        """Until its end, but not for longer than this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), at_most_s)

    def give_up(self) -> None:
        """End it soon, because nobody can use what it finds. Harmless when it has ended."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        self.give_up()
        await self._over.wait()

    def _end(self, task: "asyncio.Task[DifferenceList]") -> None:
        """Only what is answered is kept: an error would keep all that was read until then."""
        self.ended, self._task = self._clock(), None
        if task.cancelled():
            self.problem = problem_of(NotController(ROLE_LOST))
        elif (error := task.exception()) is not None:
            self.problem = _problem(error, self.id)
        else:
            self.found = task.result()
        self._over.set()


def _problem(error: BaseException, comparison: str) -> Problem:
    if isinstance(error, Refused):
        return error.problem
    named = error if isinstance(error, ControllerdError) else ControllerdError(f"it failed: {type(error).__name__}")
    problem = problem_of(named)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("comparison failed", comparison=comparison, exc_info=error)
    return problem


class ComparisonBook:
    """All comparisons that are known: those under way, and the last few that ended."""

    def __init__(self, work: Work, clock: Callable[[], float] = loop_time) -> None:
        """``clock`` gives seconds that never go back."""
        self._work = work
        self._clock = clock
        self._known: dict[str, LiveComparison] = {}

    def begin(self, *, with_brokers: bool, term: Hashable = None) -> LiveComparison:
        """A new one, or the one of this kind that is under way or waits. One of another term is given up."""
        self._sweep()
        live = [known for known in self._known.values() if known.ended is None]
        for known in live:
            if known.kind == (with_brokers, term):
                return known
            if known.kind[1] != term:
                known.give_up()
        new = LiveComparison(self._work, self._clock, with_brokers=with_brokers, term=term)
        self._known[new.id] = new
        return new

    def find(self, comparison_id: str) -> LiveComparison | None:
        """One that is under way, or among the last few that ended; None for any other."""
        self._sweep()
        return self._known.get(comparison_id)

    async def close(self) -> None:
        """End what is under way. Harmless when nothing is."""
        for known in self._known.values():
            if known.ended is None:
                await known.close()

    def _sweep(self) -> None:
        """Forget what ended long ago, and the oldest of too many."""
        ended = sorted((known.ended, known.id) for known in self._known.values() if known.ended is not None)
        horizon, surplus = self._clock() - KEPT_S, len(ended) - MAX_KEPT
        for number, (at, comparison_id) in enumerate(ended):
            if number < surplus or at < horizon:
                del self._known[comparison_id]
