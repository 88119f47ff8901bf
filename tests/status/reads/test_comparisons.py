"""Comparisons are shared by simultaneous requests, kept for a while, and cancelled with the server."""

import asyncio
import gc
import weakref

import pytest

from controllerd.errors import StoreUnavailable
from controllerd.status.reads.comparison import ComparisonProgress
from controllerd.status.reads.diff import KEPT_S, MAX_KEPT, Comparisons, LiveComparison
from controllerd.status.schema.work import DifferenceList
from tests.cli.documents import META
from tests.fakes.world import ManualClock

FOUND = DifferenceList(meta=META, items=[], compared=3, brokers=[])


async def at_once(_with_brokers: bool, _progress: ComparisonProgress) -> DifferenceList:
    """A comparison that ends at once without differences."""
    return FOUND


async def never(_with_brokers: bool, _progress: ComparisonProgress) -> DifferenceList:
    """A comparison that does not end."""
    await asyncio.Event().wait()
    return FOUND


async def ended(comparisons: Comparisons) -> LiveComparison:
    """Begin a comparison and wait for its end."""
    comparison = comparisons.begin(with_brokers=False)
    await comparison.wait(10.0)
    return comparison


async def test_a_request_joins_a_comparison_of_the_same_kind_only() -> None:
    comparisons = Comparisons(never)
    try:
        first = comparisons.begin(with_brokers=True)

        assert comparisons.begin(with_brokers=True) is first
        assert comparisons.begin(with_brokers=False) is not first
    finally:
        await comparisons.close()


async def test_an_ended_comparison_is_not_joined() -> None:
    comparisons = Comparisons(at_once)
    first = await ended(comparisons)

    second = await ended(comparisons)

    assert (second is first, first.found, second.found) == (False, FOUND, FOUND)


async def test_only_the_last_few_are_kept() -> None:
    comparisons = Comparisons(at_once)

    all_ = [await ended(comparisons) for _ in range(MAX_KEPT + 2)]

    assert [one for one in all_ if comparisons.find(one.id)] == all_[-MAX_KEPT:]


async def test_a_comparison_is_kept_for_ten_minutes_after_its_end() -> None:
    clock = ManualClock()
    comparisons = Comparisons(at_once, clock.monotonic)
    comparison = await ended(comparisons)

    clock.now += KEPT_S
    assert comparisons.find(comparison.id) is comparison
    clock.now += 1.0
    assert comparisons.find(comparison.id) is None


async def test_a_comparison_under_way_is_kept() -> None:
    clock = ManualClock()
    comparisons = Comparisons(never, clock.monotonic)
    try:
        comparison = comparisons.begin(with_brokers=True)
        clock.now += KEPT_S * 2

        assert (comparisons.find(comparison.id), comparison.elapsed_s) == (comparison, KEPT_S * 2)
    finally:
        await comparisons.close()


async def test_a_comparison_under_way_is_cancelled_by_close() -> None:
    began, was_cancelled = asyncio.Event(), asyncio.Event()

    async def work(_with_brokers: bool, _progress: ComparisonProgress) -> DifferenceList:
        began.set()
        try:
            return await never(_with_brokers, _progress)
        finally:
            was_cancelled.set()

    comparisons = Comparisons(work)
    comparison = comparisons.begin(with_brokers=True)
    await asyncio.wait_for(began.wait(), 10.0)

    await comparisons.close()

    assert (was_cancelled.is_set(), comparison.found) == (True, None)


async def test_a_comparison_of_another_term_is_cancelled_and_not_joined() -> None:
    comparisons = Comparisons(never)
    try:
        stale = comparisons.begin(with_brokers=True, term=3)
        other = comparisons.begin(with_brokers=True, term=5)
        await stale.wait(10.0)

        assert (other is stale, other.ended, stale.problem and stale.problem.code) == (False, None, "not_controller")
    finally:
        await comparisons.close()


class Seen:
    """Data that a comparison has read."""


@pytest.mark.parametrize("error", [StoreUnavailable("no session"), KeyError("t-0")])
async def test_after_an_error_the_data_that_was_read_is_released(error: Exception) -> None:
    kept: list[weakref.ref[Seen]] = []

    async def fails(_with_brokers: bool, _progress: ComparisonProgress) -> DifferenceList:
        seen = Seen()
        kept.append(weakref.ref(seen))
        await asyncio.sleep(0)
        raise type(error)(*error.args)

    comparison = await ended(Comparisons(fails))
    gc.collect()

    assert (comparison.problem is not None, [seen() for seen in kept]) == (True, [None])
