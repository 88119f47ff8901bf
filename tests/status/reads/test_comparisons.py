"""Comparisons are shared by those who ask meanwhile, kept for a while, and end with the server."""

import asyncio
import gc
import weakref

import pytest

from controllerd.errors import StoreUnavailable
from controllerd.status.reads.comparison import Progress
from controllerd.status.reads.diff import KEPT_S, MAX_KEPT, Comparisons, LiveComparison
from controllerd.status.schema.work import DifferenceList
from tests.cli.documents import META
from tests.fakes.world import ManualClock

FOUND = DifferenceList(meta=META, items=[], compared=3, brokers=[])


async def at_once(_with_brokers: bool, _progress: Progress) -> DifferenceList:
    """Nothing differs."""
    return FOUND


async def never(_with_brokers: bool, _progress: Progress) -> DifferenceList:
    """Somebody does not answer."""
    await asyncio.Event().wait()
    return FOUND


async def ended(book: Comparisons) -> LiveComparison:
    """One more that has come to its end."""
    comparison = book.begin(with_brokers=False)
    await comparison.wait(10.0)
    return comparison


async def test_who_asks_for_the_same_meanwhile_joins_and_who_asks_for_another_does_not() -> None:
    book = Comparisons(never)
    try:
        first = book.begin(with_brokers=True)

        assert book.begin(with_brokers=True) is first
        assert book.begin(with_brokers=False) is not first
    finally:
        await book.close()


async def test_what_has_ended_is_not_joined() -> None:
    book = Comparisons(at_once)
    first = await ended(book)

    second = await ended(book)

    assert (second is first, first.found, second.found) == (False, FOUND, FOUND)


async def test_only_the_last_few_are_kept() -> None:
    book = Comparisons(at_once)

    all_ = [await ended(book) for _ in range(MAX_KEPT + 2)]

    assert [one for one in all_ if book.find(one.id)] == all_[-MAX_KEPT:]


async def test_none_is_kept_for_longer_than_ten_minutes_after_its_end() -> None:
    clock = ManualClock()
    book = Comparisons(at_once, clock.monotonic)
    comparison = await ended(book)

    clock.now += KEPT_S
    assert book.find(comparison.id) is comparison
    clock.now += 1.0
    assert book.find(comparison.id) is None


async def test_what_is_under_way_is_not_forgotten_however_long_it_takes() -> None:
    clock = ManualClock()
    book = Comparisons(never, clock.monotonic)
    try:
        comparison = book.begin(with_brokers=True)
        clock.now += KEPT_S * 2

        assert (book.find(comparison.id), comparison.elapsed_s) == (comparison, KEPT_S * 2)
    finally:
        await book.close()


async def test_what_is_under_way_ends_when_the_book_is_closed() -> None:
    began, was_told = asyncio.Event(), asyncio.Event()

    async def work(_with_brokers: bool, _progress: Progress) -> DifferenceList:
        began.set()
        try:
            return await never(_with_brokers, _progress)
        finally:
            was_told.set()

    book = Comparisons(work)
    comparison = book.begin(with_brokers=True)
    await asyncio.wait_for(began.wait(), 10.0)

    await book.close()

    assert (was_told.is_set(), comparison.found) == (True, None)


async def test_one_of_another_term_is_given_up_and_not_joined() -> None:
    book = Comparisons(never)
    try:
        stale = book.begin(with_brokers=True, term=3)
        other = book.begin(with_brokers=True, term=5)
        await stale.wait(10.0)

        assert (other is stale, other.ended, stale.problem and stale.problem.code) == (False, None, "not_controller")
    finally:
        await book.close()


class Seen:
    """What a comparison has read."""


@pytest.mark.parametrize("error", [StoreUnavailable("no session"), KeyError("t-0")])
async def test_of_an_error_nothing_is_kept_that_was_read_until_then(error: Exception) -> None:
    kept: list[weakref.ref[Seen]] = []

    async def fails(_with_brokers: bool, _progress: Progress) -> DifferenceList:
        seen = Seen()
        kept.append(weakref.ref(seen))
        await asyncio.sleep(0)
        raise type(error)(*error.args)

    comparison = await ended(Comparisons(fails))
    gc.collect()

    assert (comparison.problem is not None, [seen() for seen in kept]) == (True, [None])
