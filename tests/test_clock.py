"""Delayed events come once, and at the earliest time that was requested."""

import asyncio
from collections.abc import Callable

import pytest

from controllerd.clock import LoopTimers
from events.base import Event
from events.cluster import Reelect
from events.topics import TopicDeletionRetry
from tests.sim.loop import VirtualLoop, run

Arrivals = list[tuple[float, Event]]


def arrivals(act: Callable[[LoopTimers], object], *later: tuple[float, Callable[[LoopTimers], object]]) -> Arrivals:
    """The events and their seconds of virtual time, if ``act`` runs now and the others later."""

    async def story(loop: VirtualLoop) -> Arrivals:
        began, found = loop.time(), Arrivals()
        timers = LoopTimers(lambda event: found.append((round(loop.time() - began, 3), event)))
        act(timers)
        for delay_s, then in later:
            loop.call_later(delay_s, then, timers)
        await asyncio.sleep(1000.0)
        return found

    return run(story, seed=1)


def wants_retry(delay_s: float) -> Callable[[LoopTimers], object]:
    return lambda timers: timers.put_later(delay_s, TopicDeletionRetry())


@pytest.mark.parametrize("delays", [(600.0, 30.0), (30.0, 600.0), (30.0, 30.0)])
def test_of_equal_events_one_comes_at_the_earliest_requested_time(delays: tuple[float, float]) -> None:
    def act(timers: LoopTimers) -> None:
        for delay_s in delays:
            wants_retry(delay_s)(timers)

    assert arrivals(act) == [(30.0, TopicDeletionRetry())]


def test_the_earlier_event_is_the_one_that_is_due_earlier() -> None:
    """At 590 s the event of 600 s comes in 10 s, which is earlier than in 30 s."""
    assert arrivals(wants_retry(600.0), (590.0, wants_retry(30.0))) == [(600.0, TopicDeletionRetry())]
    assert arrivals(wants_retry(600.0), (100.0, wants_retry(30.0))) == [(130.0, TopicDeletionRetry())]


def test_an_event_that_came_may_be_requested_again() -> None:
    retries = arrivals(wants_retry(1.0), (2.0, wants_retry(5.0)))

    assert retries == [(1.0, TopicDeletionRetry()), (7.0, TopicDeletionRetry())]


def test_other_events_have_times_of_their_own() -> None:
    def act(timers: LoopTimers) -> None:
        timers.put_later(600.0, TopicDeletionRetry())
        timers.put_later(30.0, Reelect())

    assert arrivals(act) == [(30.0, Reelect()), (600.0, TopicDeletionRetry())]


def test_no_event_comes_after_the_timers_were_cleared() -> None:
    def act(timers: LoopTimers) -> None:
        wants_retry(600.0)(timers)
        wants_retry(30.0)(timers)
        timers.clear()

    assert arrivals(act) == []
