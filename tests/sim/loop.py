"""An event loop in virtual time: one seed decides every schedule, and no callback waits for real time.

The production code runs on it unchanged. Time does not advance while callbacks run, and jumps to the next timer when no
callback is left; without a timer the simulation is stuck: ``Deadlock``. Sockets, threads and signals do not exist.

**Order.** In each tick all callbacks that are ready are put into a canonical order and then shuffled by the seed:

- Plain callbacks (``call_soon``, ``call_soon_threadsafe``, timers that are due at once, first steps of tasks) of one
  owner keep the order in which they were scheduled, as asyncio promises; so the answers, state changes and watch events
    of one ZooKeeper client, or the frames of one stream, never overtake each other. Different owners interleave.
- Tasks woken from a future run in any order among each other and among the plain callbacks. They are sorted by the
  number of the task first: ``TaskGroup``, anyio and sets of futures wake them in the order of their addresses.

**Owners.** ``OWNER`` names the simulated process that a callback belongs to; tasks and callbacks inherit it with their
context. ``loop.spawn(owner, coroutine)`` starts a process; ``loop.context_of(owner)`` is for callbacks that other code
schedules on its behalf. ``freeze``, ``thaw``, ``stall`` and ``kill`` are SIGSTOP, SIGCONT, a pause and SIGKILL. A
dead owner's name is never used again: a restarted process is another owner.

**Trace.** ``loop.trace(text)`` records an event, in a bounded list and a running hash: the same seed gives the same
hash in every process and under every ``PYTHONHASHSEED``. ``loop.rng(name)`` is a stream of random numbers of the seed.
"""

import asyncio
import gc
import hashlib
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from random import Random
from threading import get_ident
from types import BuiltinFunctionType
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from tests.sim.loop_handles import LoopHandle, LoopTimer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OWNER: Final[ContextVar[str]] = ContextVar("OWNER", default="")
"""The simulated process that the present callback belongs to; empty for the world around the processes."""

_TRACE_LINES: Final = 4_000
_MOST_AT_ONE_INSTANT: Final = 200_000
_FEW: Final = 256
_CLOSINGS: Final = 64


class SimulationError(Exception):
    """An error of the simulation itself: the seed fails, whatever its invariants say."""


class Deadlock(SimulationError):
    """No callback is ready and no timer is left, so that the simulation can never continue."""


class Livelock(SimulationError):
    """Callbacks keep scheduling each other while virtual time stands still."""


class Forbidden(SimulationError):
    """The code used something real: a socket, a thread, a signal."""


class Unhandled(SimulationError):
    """An exception reached the loop's exception handler."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time. See the module."""

    _stopping: bool
    _thread_id: int

    def __init__(self, seed: int | str, *, shuffle: bool = True, trace_lines: int = _TRACE_LINES) -> None:
        """``shuffle`` False runs everything in plain asyncio order; ``trace_lines`` is how many ``traced`` keeps."""
        super().__init__()
        self.set_debug(False)
        self.seed = seed
        self.errors: list[Mapping[str, Any]] = []
        """The contexts that reached the exception handler; ``run`` fails the seed for them."""
        self._random = self.rng("schedule").random
        self._shuffles = shuffle
        self._now = 0.0
        self._ready: list[Handle] = []
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._timers_made = 0
        self._timers_cancelled = 0
        self._at_this_instant = 0
        self._numbers: dict[asyncio.Task[Any], int] = {}
        self._tasks_made = 0
        self._purge_tasks_at = _FEW
        self._contexts: dict[str, Context] = {}
        self._held: dict[str, list[Handle]] = {}
        self._dead: set[str] = set()
        self._is_guarded = False
        self._is_over = False
        self._lines: deque[tuple[float, str]] = deque(maxlen=trace_lines)
        self._hash = hashlib.sha256()

    # The seed

    def rng(self, name: str) -> Random:
        """Make a stream of random numbers, one for each name."""
        return Random(f"{self.seed}/{name}")

    def trace(self, text: str) -> None:
        """Record an event with the virtual time."""
        self._lines.append((self._now, text))
        self._hash.update(f"{self._now:.9f} {text}\n".encode())

    def trace_hash(self) -> str:
        """The hash over all recorded events, including the ones that ``traced`` has dropped."""
        return self._hash.hexdigest()

    def traced(self) -> list[str]:
        """The last recorded events, each with its virtual time in seconds."""
        return [f"{when:12.6f} {text}" for when, text in self._lines]

    # Owners

    def context_of(self, owner: str) -> Context:
        """A context in which ``OWNER`` is the owner, for ``call_soon`` and ``call_later``; one per owner."""
        context = self._contexts.get(owner)
        if context is None:
            context = self._contexts[owner] = copy_context()
            context.run(OWNER.set, owner)
        return context

    def spawn(self, owner: str, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a task of that owner."""
        return self.create_task(work, name=name, context=self.context_of(owner).copy())

    def freeze(self, owner: str) -> None:
        """SIGSTOP: hold every callback of the owner that becomes ready, while virtual time goes on."""
        if owner not in self._dead:
            self._held.setdefault(owner, [])
            self._is_guarded = True

    def thaw(self, owner: str) -> None:
        """SIGCONT: run the held callbacks now, in the order in which they became ready."""
        self._ready += self._held.pop(owner, [])
        self._is_guarded = bool(self._held or self._dead)

    def stall(self, owner: str, seconds: float) -> None:
        """Freeze the owner for so many virtual seconds."""
        self.freeze(owner)
        self.call_later(seconds, self.thaw, owner, context=self.context_of(""))

    def kill(self, owner: str) -> None:
        """SIGKILL: never run a callback of the owner again, nor its clean-up code."""
        self._dead.add(owner)
        self._held.pop(owner, None)
        self._is_guarded = True

    def is_frozen(self, owner: str) -> bool:
        """Whether the owner is held."""
        return owner in self._held

    def is_dead(self, owner: str) -> bool:
        """Whether the owner was killed."""
        return owner in self._dead

    # the interface of asyncio

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> Handle:
        """Run the callback in the next tick."""
        handle = LoopHandle(callback, args, self, context)
        if not self._is_over:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Do as ``call_soon``: there are no threads."""
        if get_ident() != self._thread_id:
            self._forbid(f"call_soon_threadsafe of {callback} from another thread")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> TimerHandle:
        """Run the callback after so many virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> TimerHandle:
        """Run the callback at that virtual time; timers of the same time run in the order in which they were made."""
        timer = LoopTimer(when, callback, args, self, context)
        if not self._is_over:
            self._timers_made += 1
            heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """Create a task with a number."""
        self._tasks_made = number = self._tasks_made + 1
        task = asyncio.Task(coro, loop=self, name=str(name or f"Task-{number}"), context=context)
        self._numbers[task] = number
        if len(self._numbers) > self._purge_tasks_at:
            self._numbers = {task: number for task, number in self._numbers.items() if not task.done()}
            self._purge_tasks_at = 2 * len(self._numbers) + _FEW
        return task

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        """Keep an unhandled exception."""
        if not self._is_over:
            self.errors.append(context)
            self.trace(f"unhandled: {context.get('message')}: {context.get('exception')!r}")

    def _timer_handle_cancelled(self, timer: TimerHandle) -> None:
        if not timer._scheduled:  # type: ignore[attr-defined]  # it has run
            return
        self._timers_cancelled += 1
        if self._timers_cancelled > _FEW and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapify(self._timers)
            self._timers_cancelled = 0

    # The tick

    def _run_once(self) -> None:
        if not self._ready and not self._stopping:
            self._advance()
        if self._timers and self._timers[0][0] <= self._now:
            self._take_due()
        batch = self._ready
        self._ready = []
        self._at_this_instant += len(batch)
        if self._at_this_instant > _MOST_AT_ONE_INSTANT:
            raise Livelock(f"{self._at_this_instant} callbacks at {self._now} s, the last one {batch[-1]}")
        if len(batch) > 1 and self._shuffles:
            batch = self._shuffled(batch)
        for handle in batch:
            if handle._cancelled or (self._is_guarded and self._is_held_back(handle)):
                continue
            try:
                handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # as Handle._run
            except (SystemExit, KeyboardInterrupt, SimulationError):
                raise
            except BaseException as error:  # noqa: BLE001  # as Handle._run
                self.call_exception_handler({"message": f"exception in {handle!r}", "exception": error})

    def _advance(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            waiting = [task.get_name() for task in self._numbers if not task.done()]
            raise Deadlock(f"nothing left to do at {self._now} s; waiting for ever: {waiting}")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._at_this_instant = 0

    def _take_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            timer = heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]  # as asyncio's own loop
            if timer._cancelled:
                self._timers_cancelled -= 1
            else:
                self._ready.append(timer)

    def _is_held_back(self, handle: Handle) -> bool:
        owner = _owner_of(handle)
        if owner in self._held:
            self._held[owner].append(handle)
            return True
        return owner in self._dead

    def _shuffled(self, batch: list[Handle]) -> list[Handle]:
        woken: list[tuple[int, Handle]] = []
        streams: dict[str, list[Handle]] = {}
        for handle in batch:
            number = self._number_of_woken(handle)
            if number is None:
                streams.setdefault(_owner_of(handle), []).append(handle)
            else:
                woken.append((number, handle))
        if len(woken) + len(streams) < 2:
            return batch
        woken.sort()
        slots = [[handle] for _, handle in woken]
        for stream in streams.values():
            slots += [stream] * len(stream)
            stream.reverse()
        for last in range(len(slots) - 1, 0, -1):
            other = int(self._random() * (last + 1))
            slots[last], slots[other] = slots[other], slots[last]
        return [slot.pop() for slot in slots]

    def _number_of_woken(self, handle: Handle) -> int | None:
        callback = handle._callback  # type: ignore[attr-defined]  # the name in asyncio
        if type(callback) is BuiltinFunctionType and callback.__name__.endswith("wakeup"):
            return self._numbers.get(callback.__self__)  # type: ignore[call-overload, no-any-return]  # a task
        return None

    # The end

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end of ``main``; then drop everything that is left as by SIGKILL, and close the loop.

        :raises Unhandled: an exception reached the exception handler.
        :raises Deadlock: ``main`` waits for an event that will never come.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            result = self.run_until_complete(main)
        finally:
            self._discard_tasks()
            if collecting:
                gc.enable()
        if self.errors:
            first = self.errors[0]
            raise Unhandled(f"{len(self.errors)} unhandled, the first: {first['message']}") from first.get("exception")
        return result

    def _discard_tasks(self) -> None:
        """Drop every task silently: from here on nothing can be scheduled, and effects of clean-up code are lost.

        This loop is the event loop of the thread meanwhile: ``asyncio.gather`` of nothing would make another
        one, which would never be closed.
        """
        self._is_over = True
        asyncio.set_event_loop(self)
        for task in self._numbers:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own means
                _close(task.get_coro())
        asyncio.set_event_loop(None)
        self._numbers.clear()
        self._ready.clear()
        self._timers.clear()
        self._held.clear()
        self.close()

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Ignore an asynchronous generator that was not finished: the effects of its clean-up would be lost."""

    # What does not exist

    def _forbid(self, what: str) -> NoReturn:
        error = Forbidden(what)
        self.errors.append({"message": what, "exception": error})
        raise error

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        """Refuse: there are no threads."""
        self._forbid(f"run_in_executor of {func}")

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> NoReturn:
        """Refuse: there are no signals."""
        self._forbid("add_signal_handler")

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there are no sockets."""
        self._forbid("create_connection")

    async def create_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there are no sockets."""
        self._forbid("create_server")


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], seed: int | str, *, shuffle: bool = True) -> T:
    """Run ``main(loop)`` on a loop of its own and close everything quietly."""
    loop = VirtualLoop(seed, shuffle=shuffle)
    return loop.run(main(loop))


def _owner_of(handle: Handle) -> str:
    context: Context = handle._context  # type: ignore[attr-defined]  # the name in asyncio
    return context.get(OWNER, "")


def _close(coroutine: Any) -> None:
    """Close a coroutine and the ones that it awaits, from the inside: half-closed ones would be reported later."""
    chain = []
    while hasattr(coroutine, "cr_await") and coroutine not in chain:
        chain.append(coroutine)
        coroutine = coroutine.cr_await
    for each in reversed(chain):
        _close_alone(each)


def _close_alone(coroutine: Any) -> None:
    """Close one coroutine; its clean-up may await something, so try again until it has ended."""
    for _ in range(_CLOSINGS):
        try:
            coroutine.close()
        except BaseException:  # noqa: BLE001  # the process is dead: errors of its clean-up do not matter
            continue
        return
