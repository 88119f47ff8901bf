"""What the page costs where there is very much: it comes at once, and never holds the event loop."""

import asyncio
import time
from types import MappingProxyType
from typing import Final

import aiohttp

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.views import PartitionView, TopicView
from tests.status.fake_controller import FakeController, broker, serving

TOPICS: Final = 100
PARTITIONS: Final = 1_000
BROKERS: Final = 12
DEAD: Final = 5
LONGEST_S: Final = 0.3
HELD_S: Final = 0.02


def view(number: int) -> PartitionView:
    """Three replicas of which the dead one is not in sync; the preferred one leads, where it is alive."""
    replicas = tuple(BrokerId((number + at) % BROKERS) for at in range(3))
    isr = tuple(each for each in replicas if each != DEAD)
    leadership = LeaderAndIsr(isr[0], 1, isr, 1, 1)
    return PartitionView(number, PartitionState.ONLINE, ReplicaAssignment(replicas), leadership, ())


def big() -> FakeController:
    """100,000 partitions, of which a quarter lacks a copy."""
    controller = FakeController()
    controller.lead(3)
    snapshot = controller.snapshot
    snapshot.topics.clear()
    snapshot.offline_partitions = 0
    snapshot.brokers = MappingProxyType({BrokerId(n): broker(n) for n in range(BROKERS) if n != DEAD})
    for number in range(TOPICS):
        name = f"topic-{number}"
        snapshot.topics[name] = TopicView(name, None, tuple(map(view, range(PARTITIONS))))
    return controller


async def longest_turn(held: list[float]) -> None:
    """Note how long the loop was kept from us, in seconds of this thread: other processes do not count."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(0)
        held.append(time.thread_time() - before)


async def test_the_page_of_100_000_partitions_comes_at_once_and_holds_nobody_up() -> None:
    controller, held, took = big(), list[float](), list[float]()
    async with serving(controller) as url, aiohttp.ClientSession() as http:
        watching = asyncio.create_task(longest_turn(held))
        for path in ("/", "/?list=under-replicated", "/?why=topic-7", "/"):
            controller.snapshot.version += 1
            began = time.thread_time()
            async with http.get(url + path) as response:
                page = await response.text()
            took.append(time.thread_time() - began)
            assert "25,000" in page
        watching.cancel()

    print(f"took {[round(each * 1000) for each in took]} ms, held at most {max(held) * 1000:.1f} ms")
    assert max(took[1:]) < LONGEST_S
    assert max(held) < HELD_S
