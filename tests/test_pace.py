"""Long passes give the loop a turn when their slice is used up, and not before."""

import sys
from collections.abc import Sequence

import pytest

from controllerd.pace import THREAD_SWITCH_S, Pace, favour_the_loop, sliced
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
