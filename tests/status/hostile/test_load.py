"""Hostile clients do not delay the processing of events."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from controllerd.status.http.limits import Limits
from events.cluster import Takeover
from tests.status.fake_controller import FakeController
from tests.status.hostile.endpoint import GUARDED, STREAM, Endpoint, ask, connected, http_request, opened, until

PATIENT = Limits(head_s=60.0, body_s=60.0, unread_s=60.0)
"""Long limits: no client is disconnected during a measurement."""
EVENTS = 200
HOSTILE = (
    b"",
    b"GET /look HTT",
    b"GET /" + b"x" * 9_000,
    http_request("/plan", "POST", headers={"Content-Length": "99"}),
    http_request("/stream", headers=STREAM),
    http_request("/big"),
    http_request("/look", host="rebound.example"),
)
"""No byte, half a head, a head that is too long, half a body, answers that are not read, and a foreign host name."""


async def handled(controller: FakeController) -> tuple[int, int, float]:
    """The number of handled events, the turns of the loop in that time, and the processor time in seconds.

    The processor time includes all other tasks that run in these turns.
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
async def loaded(endpoint: Endpoint) -> AsyncIterator[None]:
    """Hostile clients of every kind, with as many connections as the endpoint accepts."""
    async with AsyncExitStack() as clients:
        for number in range(1_000):
            connection = await clients.enter_async_context(connected(endpoint))
            connection.send(HOSTILE[number % len(HOSTILE)])
        await until(lambda: endpoint.listener.limiter.closed.total() >= 900)
        yield


async def test_an_event_takes_as_many_turns_of_the_loop_with_hostile_clients_as_without() -> None:
    controller = FakeController()
    async with opened(limits=PATIENT) as endpoint, asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        _, unloaded, _ = await handled(controller)
        async with loaded(endpoint):
            events, under_load, _ = await handled(controller)
        worker.cancel()

    assert events == 2 * EVENTS
    assert abs(under_load - unloaded) <= 1  # counting may begin at another point of a turn


async def test_idle_connections_take_no_processor_time() -> None:
    controller = FakeController()
    async with opened(limits=PATIENT) as endpoint, asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        unloaded, under_load = list[float](), list[float]()
        for _ in range(4):  # alternately, because other load of the machine lasts for seconds
            unloaded += [(await handled(controller))[2] for _ in range(5)]
            async with loaded(endpoint):
                under_load += [(await handled(controller))[2] for _ in range(5)]
        worker.cancel()

    assert min(under_load) < 2 * min(unloaded)


async def test_guesses_of_tokens_do_not_reach_the_controller() -> None:
    controller = FakeController()
    async with opened(GUARDED) as endpoint, asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        for number in range(200):
            assert (
                await ask(endpoint, http_request("/verb", "POST", headers={"Authorization": f"Bearer {number:032}"}))
            )[0] == 401
        events, _, _ = await handled(controller)
        worker.cancel()

    assert (events, endpoint.principals) == (EVENTS, [])
