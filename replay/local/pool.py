"""Run work in several processes, each of which reports its progress; a small amount of work runs in this process."""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import Synchronized
from typing import Final, TypeVar

from replay.facts.engine import ReplayError

T = TypeVar("T")
R = TypeVar("R")

WORKERS: Final = 2
_LOOK_EVERY_S: Final = 0.5
_COLLECT_EVERY: Final = 100_000
"""New containers until a garbage collection, instead of some hundreds."""

OnSteps = Callable[[int], None]
"""A callback with the number of steps that all processes have made."""


def workers() -> int:
    """Return the number of processes for the work: at most one per processor."""
    return max(1, min(WORKERS, len(os.sched_getaffinity(0))))


def no_steps(steps: int) -> None:
    """Ignore steps."""


def each(
    action: Callable[[T], R], items: Sequence[T], *, processes: int, on_steps: OnSteps = no_steps
) -> Iterator[tuple[T, R]]:
    """Yield the result for every item when it is ready; with one process, the work runs in this process.

    :param action: a function that other processes can import; it may call ``advance``
    :raises ReplayError: a process was killed. An error of ``action`` is raised here, and no further item is begun.
    """
    if processes == 1 or len(items) <= 1:
        _STEPS.count_here(on_steps)
        yield from ((item, action(item)) for item in items)
        return
    # Forked children of a process with threads, which Arrow starts, may hang.
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    with ProcessPoolExecutor(processes, context, start_counting, (counter,)) as pool:
        try:
            yield from _as_they_come(pool, action, items, 2 * processes, lambda: on_steps(counter.value))
        except BrokenProcessPool:
            raise ReplayError(
                "a worker process was killed, most likely because memory ran out: free some, or take fewer workers"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def advance(steps: int) -> None:
    """Report steps from within an action."""
    _STEPS.add(steps)


def _as_they_come(
    pool: ProcessPoolExecutor, action: Callable[[T], R], items: Sequence[T], ahead: int, poll: Callable[[], None]
) -> Iterator[tuple[T, R]]:
    waiting = iter(items)
    running: dict[Future[R], T] = {}
    while True:
        while len(running) < ahead and (item := next(waiting, None)) is not None:
            running[pool.submit(action, item)] = item
        if not running:
            return
        done, _ = wait(running, _LOOK_EVERY_S, FIRST_COMPLETED)
        poll()
        for future in done:
            yield running.pop(future), future.result()


class _Steps:
    """Count the steps of this process, or of all processes that share a counter."""

    def __init__(self) -> None:
        self._shared: Synchronized[int] | None = None
        self._made = 0
        self._on_steps: OnSteps = no_steps

    def count_here(self, on_steps: OnSteps) -> None:
        """Count from 0, in this process."""
        self._shared, self._made, self._on_steps = None, 0, on_steps

    def share(self, counter: "Synchronized[int]") -> None:
        """Count into a shared counter, which another process reads."""
        self._shared = counter

    def add(self, steps: int) -> None:
        """Add steps."""
        if self._shared is not None:
            with self._shared.get_lock():
                self._shared.value += steps
        else:
            self._made += steps
            self._on_steps(self._made)


_STEPS: Final = _Steps()


def start_counting(counter: "Synchronized[int]") -> None:
    """Initialise a new process. It creates millions of values and no cycles, so garbage collection may be rare."""
    gc.set_threshold(_COLLECT_EVERY)
    _STEPS.share(counter)
