"""Long passes give the loop a turn when their slice is used up, and not before."""

import asyncio
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest

from controllerd.pace import HOLD_BACK_S, THREAD_SWITCH_S, Pace, Turnstile, favour_the_loop, sliced
from tests.turns import Turns


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def turns_of(pace: Pace) -> int:
    with Turns() as turns:
        await pace.breathe()
    return turns.count


async def test_the_loop_gets_no_turn_before_the_slice_is_used_up(clock: Clock) -> None:
    pace = Pace(0.015, clock)

    clock.now += 0.014

    assert await turns_of(pace) == 0


async def test_the_loop_gets_one_turn_once_the_slice_is_used_up(clock: Clock) -> None:
    pace = Pace(0.015, clock)

    clock.now += 0.016

    assert await turns_of(pace) == 1


async def test_after_a_turn_a_new_slice_begins(clock: Clock) -> None:
    pace = Pace(0.015, clock)
    clock.now += 0.016
    await pace.breathe()

    clock.now += 0.014

    assert await turns_of(pace) == 0


@pytest.mark.parametrize(
    ("items", "slices"),
    [([], []), ([1], [[1]]), ([1, 2], [[1, 2]]), ([1, 2, 3, 4, 5], [[1, 2], [3, 4], [5]])],
)
def test_slices_hold_all_items_in_order(items: Sequence[int], slices: list[list[int]]) -> None:
    assert list(sliced(items, 2)) == slices


def test_a_thread_that_computes_lets_go_of_the_interpreter_soon() -> None:
    before = sys.getswitchinterval()
    try:
        favour_the_loop()

        assert sys.getswitchinterval() == pytest.approx(THREAD_SWITCH_S)
    finally:
        sys.setswitchinterval(before)


class Pass:
    """A pass of some slices, each of which is longer than a slice may be."""

    def __init__(self, name: str, slices: int, seen: list[str]) -> None:
        self._name = name
        self._slices = slices
        self._seen = seen

    async def run(self, turnstile: Turnstile) -> None:
        pace = await turnstile.pace()
        for _ in range(self._slices):
            self._seen.append(self._name)
            while not pace.is_due:
                pass
            await pace.breathe()


async def rounds_until(work: "asyncio.Future[list[None]]", seen: list[str]) -> list[int]:
    """How many slices each round of the loop had, until the work is done."""
    rounds, before = [], 0
    while not work.done():
        await asyncio.sleep(0)
        rounds.append(len(seen) - before)
        before = len(seen)
    return rounds


async def test_however_many_read_a_round_of_the_loop_has_one_slice_at_most_and_every_other_has_none() -> None:
    turnstile, seen = Turnstile(), list[str]()

    work = asyncio.gather(*(Pass(name, 3, seen).run(turnstile) for name in "abcd"))
    rounds = await rounds_until(work, seen)

    assert len(seen) == 12
    assert max(rounds) == 1
    assert all(0 in pair for pair in pairwise(rounds))


async def test_readers_go_on_in_turn_so_that_a_short_read_is_not_held_up_by_long_ones() -> None:
    turnstile, seen = Turnstile(), list[str]()

    await asyncio.gather(*(Pass(name, slices, seen).run(turnstile) for name, slices in (("a", 4), ("b", 4), ("c", 1))))

    assert "".join(seen) == "abcababab"


async def test_a_reader_who_leaves_does_not_keep_the_others_waiting() -> None:
    turnstile, seen = Turnstile(), list[str]()
    first = asyncio.create_task(Pass("a", 1, seen).run(turnstile))
    second = asyncio.create_task(Pass("b", 1, seen).run(turnstile))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    await Pass("c", 1, seen).run(turnstile)

    assert seen == ["b", "c"]


async def test_readers_hold_back_until_what_is_more_urgent_is_over() -> None:
    urgent, seen = [True], list[str]()
    turnstile = Turnstile(lambda: urgent[0])
    reading = asyncio.create_task(Pass("a", 1, seen).run(turnstile))
    for _ in range(5):
        await asyncio.sleep(0)
    assert seen == []

    urgent[0] = False
    await reading

    assert seen == ["a"]


async def test_readers_go_on_slowly_though_something_urgent_never_ends() -> None:
    loop, seen = asyncio.get_running_loop(), list[str]()
    began = loop.time()

    await Pass("a", 3, seen).run(Turnstile(lambda: True))

    assert len(seen) == 3
    assert loop.time() - began >= 3 * HOLD_BACK_S
