"""Long passes give the loop a turn when their slice is used up, and not before."""

import asyncio
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.slicer import (
    HOLD_BACK_S,
    SLICE,
    THREAD_SWITCH_S,
    Slicer,
    Turnstile,
    by_broker,
    in_order,
    prioritise_event_loop,
    sliced,
)
from tests.turns import Turns


class SlicerClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SlicerClock:
    return SlicerClock()


async def turns_of(slicer: Slicer) -> int:
    with Turns() as turns:
        await slicer.yield_to_loop()
    return turns.count


async def test_the_loop_gets_no_turn_before_the_slice_is_used_up(clock: SlicerClock) -> None:
    slicer = Slicer(0.015, clock)

    clock.now += 0.014

    assert await turns_of(slicer) == 0


async def test_the_loop_gets_one_turn_once_the_slice_is_used_up(clock: SlicerClock) -> None:
    slicer = Slicer(0.015, clock)

    clock.now += 0.016

    assert await turns_of(slicer) == 1


async def test_after_a_turn_a_new_slice_begins(clock: SlicerClock) -> None:
    slicer = Slicer(0.015, clock)
    clock.now += 0.016
    await slicer.yield_to_loop()

    clock.now += 0.014

    assert await turns_of(slicer) == 0


@pytest.mark.parametrize(
    ("items", "slices"),
    [([], []), ([1], [[1]]), ([1, 2], [[1, 2]]), ([1, 2, 3, 4, 5], [[1, 2], [3, 4], [5]])],
)
def test_slices_hold_all_items_in_order(items: Sequence[int], slices: list[list[int]]) -> None:
    assert list(sliced(items, 2)) == slices


def test_the_thread_switch_interval_is_short() -> None:
    before = sys.getswitchinterval()
    try:
        prioritise_event_loop()

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
        slicer = await turnstile.slicer()
        for _ in range(self._slices):
            self._seen.append(self._name)
            while not slicer.is_due:
                pass
            await slicer.yield_to_loop()


async def rounds_until(work: "asyncio.Future[list[None]]", seen: list[str]) -> list[int]:
    """How many slices each round of the loop had, until the work is done."""
    rounds, before = [], 0
    while not work.done():
        await asyncio.sleep(0)
        rounds.append(len(seen) - before)
        before = len(seen)
    return rounds


async def test_however_many_read_each_second_iteration_of_the_loop_has_one_slice_at_most() -> None:
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


async def test_a_cancelled_reader_does_not_keep_the_others_waiting() -> None:
    turnstile, seen = Turnstile(), list[str]()
    first = asyncio.create_task(Pass("a", 1, seen).run(turnstile))
    second = asyncio.create_task(Pass("b", 1, seen).run(turnstile))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    await Pass("c", 1, seen).run(turnstile)

    assert seen == ["b", "c"]


async def test_readers_wait_until_urgent_work_is_done() -> None:
    urgent, seen = [True], list[str]()
    turnstile = Turnstile(lambda: urgent[0])
    reading = asyncio.create_task(Pass("a", 1, seen).run(turnstile))
    for _ in range(5):
        await asyncio.sleep(0)
    assert seen == []

    urgent[0] = False
    await reading

    assert seen == ["a"]


async def test_readers_go_on_slowly_while_urgent_work_never_ends() -> None:
    loop, seen = asyncio.get_running_loop(), list[str]()
    began = loop.time()

    await Pass("a", 3, seen).run(Turnstile(lambda: True))

    assert len(seen) == 3
    assert loop.time() - began >= 3 * HOLD_BACK_S


async def test_a_pass_yields_to_the_loop_after_each_slice() -> None:
    with Turns() as turns:
        seen = [item async for item in Slicer(0.0).each(range(3 * SLICE))]

    assert seen == list(range(3 * SLICE))
    assert turns.count == 3


async def test_an_item_removed_meanwhile_is_still_passed() -> None:
    items = {1, 2, 3}

    async for item in Slicer().each(items):
        items.discard(item)

    assert items == set()


async def test_partitions_come_by_broker_in_their_order() -> None:
    rows = [(TopicPartition("t", 1), (BrokerId(2), BrokerId(1))), (TopicPartition("t", 0), (BrokerId(2),))]

    found = await by_broker(row async for row in Slicer().each(rows))

    assert found == {2: [TopicPartition("t", 1), TopicPartition("t", 0)], 1: [TopicPartition("t", 1)]}


async def test_partitions_are_put_in_the_order_that_sorting_gives() -> None:
    mixed = [TopicPartition(topic, partition) for partition in (10, 2, 0) for topic in ("b", "a-1", "a")]

    assert await in_order(mixed, Slicer()) == sorted(mixed)


async def test_each_slice_is_one_step_and_one_turn() -> None:
    steps: list[Sequence[int]] = []

    with Turns() as turns:
        await Slicer(0.0).for_each_slice(range(5), steps.append, 2)

    assert steps == [range(2), range(2, 4), range(4, 5)]
    assert turns.count == 3
