"""The guard against a frozen process, and the look at the clock before anything that became ready meanwhile."""

import asyncio
import socket

import pytest

from controllerd.daemon.freeze_guard import FreezeGuard, WakingSelector
from tests.fakes.world import ManualClock

LIMIT_S = 6.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def guard(clock: ManualClock) -> FreezeGuard:
    return FreezeGuard(LIMIT_S, clock.monotonic, lambda: None)


def test_a_process_that_runs_may_send(guard: FreezeGuard, clock: ManualClock) -> None:
    for _ in range(10):
        clock.now += LIMIT_S / 2
        guard.tick()

    assert guard.may_send()


def test_a_sender_notices_the_gap_before_the_tick_does(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += LIMIT_S + 0.001

    assert not guard.may_send()


def test_a_gap_as_long_as_the_session_is_not_yet_one(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += LIMIT_S

    assert guard.may_send()


def test_time_alone_does_not_end_the_doubt(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += 2 * LIMIT_S
    guard.tick()
    clock.now += 0.1
    guard.tick()

    assert not guard.may_send()


def test_a_revalidated_epoch_ends_the_doubt(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += 2 * LIMIT_S
    guard.tick()

    guard.revalidated(guard.doubts)

    assert guard.may_send()


def test_a_freeze_is_judged_by_the_granted_session_timeout(guard: FreezeGuard, clock: ManualClock) -> None:
    guard.set_limit(LIMIT_S / 3)
    clock.now += LIMIT_S / 2

    assert not guard.may_send()


def test_a_longer_session_allows_a_longer_freeze(guard: FreezeGuard, clock: ManualClock) -> None:
    guard.set_limit(LIMIT_S * 3)
    clock.now += LIMIT_S * 2

    assert guard.may_send()


@pytest.mark.parametrize("limit_s", [LIMIT_S * 3, LIMIT_S / 3])
def test_a_freeze_that_ends_with_another_timeout_is_judged_by_the_shorter(
    guard: FreezeGuard, clock: ManualClock, limit_s: float
) -> None:
    clock.now += min(LIMIT_S, limit_s) + 0.001
    guard.set_limit(limit_s)

    assert not guard.may_send()


def test_the_clock_is_checked_before_a_ready_socket_is_served() -> None:
    selector = WakingSelector()
    order: list[str] = []

    async def story() -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        served = asyncio.Event()

        def serve() -> None:
            order.append("served")
            served.set()

        loop.add_reader(ours, serve)
        selector.on_waking = lambda: order.append("looked")
        theirs.send(b"!")
        async with asyncio.timeout(20):
            await served.wait()
        loop.remove_reader(ours)
        ours.close()
        theirs.close()

    with asyncio.Runner(loop_factory=selector.loop) as runner:
        runner.run(story())

    assert order[:2] == ["looked", "served"]
