"""The guarantees of the loop: virtual time, one schedule per seed, asyncio's orders kept, owners that die."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sim.loop import OWNER, Deadlock, Forbidden, Livelock, Unhandled, VirtualLoop, run

HERE = Path(__file__).parents[2]


def test_time_jumps_to_the_next_timer() -> None:
    async def main(loop: VirtualLoop) -> float:
        await asyncio.sleep(3_600)
        return loop.time()

    assert run(main, 1) == 3_600


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main(_loop: VirtualLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(main, 1)


def test_spinning_without_time_is_a_livelock() -> None:
    async def main(loop: VirtualLoop) -> None:
        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(Livelock):
        run(main, 1)


def test_threads_are_forbidden_even_if_the_error_is_swallowed() -> None:
    async def main(loop: VirtualLoop) -> None:
        with pytest.raises(Forbidden):
            loop.run_in_executor(None, print)

    with pytest.raises(Unhandled):
        run(main, 1)


def test_an_exception_in_a_callback_fails_the_seed() -> None:
    async def main(loop: VirtualLoop) -> None:
        loop.call_soon([].pop)
        await asyncio.sleep(1)

    with pytest.raises(Unhandled) as caught:
        run(main, 1)
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_timeout_ends_in_virtual_time() -> None:
    async def main(loop: VirtualLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.Event().wait()
        return loop.time()

    assert run(main, 1) == 7


async def _order_of_wakeups(_loop: VirtualLoop) -> list[int]:
    go, order = asyncio.Event(), []

    async def one(number: int) -> None:
        await go.wait()
        order.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(6)]
    await asyncio.sleep(0.1)
    go.set()
    await asyncio.gather(*tasks)
    return order


def test_the_seed_decides_in_which_order_tasks_wake() -> None:
    orders = [run(_order_of_wakeups, seed) for seed in range(20)]
    assert len({tuple(order) for order in orders}) > 10
    assert orders == [run(_order_of_wakeups, seed) for seed in range(20)]


def test_without_shuffling_tasks_wake_in_the_order_of_asyncio() -> None:
    assert run(_order_of_wakeups, 1, shuffle=False) == list(range(6))


async def _order_of_callbacks(loop: VirtualLoop) -> list[tuple[str, int]]:
    order: list[tuple[str, int]] = []
    for number in range(10):
        for owner in ("a", "b"):
            loop.call_soon_threadsafe(order.append, (owner, number), context=loop.context_of(owner))
    await asyncio.sleep(0.1)
    return order


@pytest.mark.parametrize("seed", range(5))
def test_callbacks_of_one_owner_keep_their_order(seed: int) -> None:
    order = run(_order_of_callbacks, seed)
    assert [number for owner, number in order if owner == "a"] == list(range(10))
    assert [number for owner, number in order if owner == "b"] == list(range(10))


def test_callbacks_of_two_owners_interleave() -> None:
    assert len({tuple(run(_order_of_callbacks, seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("seed", range(5))
def test_tasks_begin_in_the_order_in_which_they_were_made(seed: int) -> None:
    async def main(_loop: VirtualLoop) -> list[int]:
        begun: list[int] = []

        async def one(number: int) -> None:
            begun.append(number)

        await asyncio.gather(*(one(number) for number in range(9)))
        return begun

    assert run(main, seed) == list(range(9))


class Ticker:
    """A process that counts the virtual seconds in which it ran, and records its end."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.ticks: list[float] = []
        self.ended = False

    async def work(self) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                self.ticks.append(self.loop.time())
        finally:
            self.ended = True


async def _ticker(loop: VirtualLoop, act: Callable[[], None]) -> Ticker:
    ticker = Ticker(loop)
    loop.spawn("p", ticker.work())
    await asyncio.sleep(2.5)
    act()
    await asyncio.sleep(4.5)
    return ticker


def test_a_frozen_owner_goes_on_late() -> None:
    async def main(loop: VirtualLoop) -> list[float]:
        return (await _ticker(loop, lambda: loop.stall("p", 3))).ticks

    assert run(main, 1) == [1, 2, 5.5, 6.5]


def test_a_killed_owner_never_runs_again_and_cleans_nothing_up() -> None:
    async def main(loop: VirtualLoop) -> tuple[list[float], bool]:
        ticker = await _ticker(loop, lambda: loop.kill("p"))
        return ticker.ticks, ticker.ended

    assert run(main, 1) == ([1, 2], False)


def test_a_killed_owner_runs_no_callback_of_the_same_tick() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []
        loop.call_soon(loop.kill, "p", context=loop.context_of("p"))
        loop.call_soon(seen.append, "alive", context=loop.context_of("p"))
        await asyncio.sleep(1)
        return seen

    assert run(main, 1) == []


def test_tasks_inherit_their_owner() -> None:
    async def child() -> str:
        await asyncio.sleep(1)
        return OWNER.get()

    async def parent() -> str:
        return await asyncio.create_task(child())

    async def main(loop: VirtualLoop) -> str:
        return await loop.spawn("p", parent())

    assert run(main, 1) == "p"


def test_tasks_that_are_left_vanish_quietly() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)

    async def main(loop: VirtualLoop) -> None:
        loop.spawn("p", stubborn())
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1))
            loop.spawn("q", stubborn())
        loop.kill("q")

    run(main, 1)


async def _worker(loop: VirtualLoop, name: str, pending: set[asyncio.Future[None]]) -> None:
    rng = loop.rng(name)
    for step in range(20):
        future: asyncio.Future[None] = loop.create_future()
        pending.add(future)
        try:
            async with asyncio.timeout(rng.random()):
                await future
        except (TimeoutError, LookupError) as error:
            loop.trace(f"{name} {step} {type(error).__name__}")


async def _disturb(pending: set[asyncio.Future[None]]) -> None:
    while True:
        await asyncio.sleep(0.7)
        for future in pending:
            if not future.done():
                future.set_exception(LookupError())


async def _fail_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise LookupError


async def story(loop: VirtualLoop) -> str:
    """Run sets of futures that fail together, and a task group that is cancelled: all in the order of addresses."""
    pending: set[asyncio.Future[None]] = set()
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(_worker(loop, f"w{number}", pending))
            group.create_task(_disturb(pending))
            group.create_task(_fail_after(5))
    except* LookupError:
        loop.trace("the end")
    return loop.trace_hash()


class LoopsMade(asyncio.DefaultEventLoopPolicy):
    """A policy that keeps the event loops that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[asyncio.AbstractEventLoop] = []

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        self.made.append(super().new_event_loop())
        return self.made[-1]


@pytest.fixture
def loops() -> Iterator[LoopsMade]:
    before, loops = asyncio.get_event_loop_policy(), LoopsMade()
    asyncio.set_event_loop_policy(loops)
    yield loops
    asyncio.set_event_loop_policy(before)
    for loop in loops.made:
        loop.close()


def test_a_task_that_gathers_no_others_in_its_clean_up_leaves_no_event_loop_behind(loops: LoopsMade) -> None:
    """``asyncio.gather`` of nothing makes an event loop where there is none, which would never be closed."""

    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(return_exceptions=True)

    async def main(_loop: VirtualLoop) -> asyncio.Task[None]:
        task = asyncio.create_task(last())
        await asyncio.sleep(1)
        return task

    run(main, 1)

    assert loops.made == []


STORY = "from tests.sim.loop import run; from tests.sim.test_loop import story; print(run(story, 7))"


def test_the_trace_is_the_same_in_every_process() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", STORY], env={"PYTHONHASHSEED": seed}, cwd=HERE, check=True, capture_output=True
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(hashes) == 1
    assert run(story, 8) != run(story, 7)
