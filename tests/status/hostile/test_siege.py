"""While hostile clients do what they can, events are processed as if nobody was there."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from controllerd.status.http.limits import Limits
from events.cluster import Takeover
from tests.status.fake_controller import FakeController
from tests.status.hostile.house import GUARDED, STREAM, House, ask, asked, opened, until, wired

PATIENT = Limits(head_s=60.0, body_s=60.0, unread_s=60.0)
"""Nobody is cut off while it is measured."""
EVENTS = 200
HOSTILE = (
    b"",
    b"GET /look HTT",
    b"GET /" + b"x" * 9_000,
    asked("/plan", "POST", headers={"Content-Length": "99"}),
    asked("/stream", headers=STREAM),
    asked("/big"),
    asked("/look", host="rebound.example"),
)
"""Silence, half a head, a head too long, half a body, answers that nobody reads, and a foreign name."""


async def handled(controller: FakeController) -> tuple[int, int, float]:
    """How many events were handled, within how many turns of the loop, at what cost of the processor in seconds.

    The cost includes whatever else runs in these turns.
    """
    turns = 0

    async def counting() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counter, began = asyncio.create_task(counting()), time.thread_time()
    for _ in range(EVENTS):
        await controller.queue.call(Takeover("drill"))
    spent = time.thread_time() - began
    counter.cancel()
    return len(controller.reasons), turns, spent


@asynccontextmanager
async def besieged(house: House) -> AsyncIterator[None]:
    """Every kind at once, each with as many connections as it gets."""
    async with AsyncExitStack() as clients:
        for number in range(1_000):
            wire = await clients.enter_async_context(wired(house))
            wire.send(HOSTILE[number % len(HOSTILE)])
        await until(lambda: house.listener.limiter.closed.total() >= 900)
        yield


async def test_an_event_takes_as_many_turns_of_the_loop_under_siege_as_in_peace() -> None:
    controller = FakeController()
    async with opened(limits=PATIENT) as house, asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        _, in_peace, _ = await handled(controller)
        async with besieged(house):
            events, under_siege, _ = await handled(controller)
        worker.cancel()

    assert events == 2 * EVENTS
    assert abs(under_siege - in_peace) <= 1  # the loop may be at another point of a turn when counting begins


async def test_connections_that_do_nothing_cost_nothing() -> None:
    controller = FakeController()
    async with opened(limits=PATIENT) as house, asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        in_peace, under_siege = list[float](), list[float]()
        for _ in range(4):  # by turns, as whatever else the machine does lasts for seconds
            in_peace += [(await handled(controller))[2] for _ in range(5)]
            async with besieged(house):
                under_siege += [(await handled(controller))[2] for _ in range(5)]
        worker.cancel()

    assert min(under_siege) < 2 * min(in_peace)


async def test_guesses_of_tokens_reach_nobody() -> None:
    controller = FakeController()
    async with opened(GUARDED) as house, asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        for number in range(200):
            assert (await ask(house, asked("/verb", "POST", headers={"Authorization": f"Bearer {number:032}"})))[
                0
            ] == 401
        events, _, _ = await handled(controller)
        worker.cancel()

    assert (events, house.guests) == (EVENTS, [])
