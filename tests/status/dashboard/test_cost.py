"""The cost of the page for a large cluster: it is fast, and does not block the event loop."""

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
    """A partition with three replicas; a replica on the dead broker is not in sync, and the first live one leads."""
    replicas = tuple(BrokerId((number + at) % BROKERS) for at in range(3))
    isr = tuple(each for each in replicas if each != DEAD)
    leadership = LeaderAndIsr(isr[0], 1, isr, 1, 1)
    return PartitionView(number, PartitionState.ONLINE, ReplicaAssignment(replicas), leadership, ())


def big() -> FakeController:
    """100,000 partitions, of which a quarter is under-replicated."""
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
    """Measure how long the event loop is blocked, in processor seconds of this thread."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(0)
        held.append(time.thread_time() - before)


async def test_the_page_of_100_000_partitions_is_fast_and_does_not_block_the_event_loop() -> None:
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
