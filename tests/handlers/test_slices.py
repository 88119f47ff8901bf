"""Long events yield to the event loop after every slice of partitions, and a lost session in such a turn does no harm.

These tests use no clock: they count work in executed lines, and time in turns of the event loop.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import handlers
from controllerd.core.model import BrokerId
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.requests import UpdateMetadataRequest
from controllerd.core.topic_creation import TopicRequest
from controllerd.machines.outbox import Outbox
from controllerd.slicer import SLICE, Slicer
from events.admin import ControlledShutdown, CreatePartitions, CreateTopics
from events.cluster import Expire, RegisterBrokerAndReelect
from tests.fakes.requester import ALICE
from tests.fakes.world import World
from tests.handlers.test_faults import assert_in_order

TOPICS, PARTITIONS = 60, 100
BROKERS = (1, 2, 3, 4, 5)
LINES_OF_A_SLICE = 80 * SLICE
"""More lines than any step over one slice executes, and far fewer than a step over all 6,000 partitions."""
TREE = Path(handlers.__file__).parents[1]
OURS = tuple(
    str(TREE / part)
    for part in ("handlers/", "controllerd/core/", "controllerd/machines/", "controllerd/loop.py", "channel_manager/")
)
Step = Callable[[World], Awaitable[object]]


class Stretches:
    """Counts the lines of controllerd that run between two turns of the event loop."""

    def __init__(self) -> None:
        self.longest: tuple[int, str] = (0, "")
        self.total = 0
        self.turns = 0
        self._lines: Counter[str] = Counter()

    async def over(self, work: Awaitable[object]) -> None:
        """Run the work to its end, and a probe beside it in every turn."""
        probe = asyncio.create_task(self._probe())
        sys.settrace(self._trace)
        try:
            await work
        finally:
            sys.settrace(None)
            probe.cancel()
        self._turn()

    async def _probe(self) -> None:
        while True:
            self._turn()
            await asyncio.sleep(0)

    def _turn(self) -> None:
        lines = self._lines.total()
        where = ", ".join(f"{name} {count}" for name, count in self._lines.most_common(3))
        self.longest = max(self.longest, (lines, where))
        self.total += lines
        self.turns += 1
        self._lines.clear()

    def _trace(self, frame: FrameType, _event: str, _arg: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(OURS) else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self._lines[frame.f_code.co_qualname] += 1
        return self._line


def put_topics(world: World, prefix: str, topics: int = TOPICS, partitions: int = PARTITIONS) -> None:
    for topic in range(topics):
        replicas = {p: [(topic + p + k) % len(BROKERS) + 1 for k in range(3)] for p in range(partitions)}
        world.put_topic(f"{prefix}{topic}", replicas)


def always_yielding_machines(world: World) -> World:
    """Have the partition and replica machines yield after every slice."""
    old = world.c.outbox
    world.c.outbox = outbox = Outbox(old._context, old._channels, old._audit, old._new_batch, Slicer(0.0))
    for machine in (world.c.partitions, world.c.replicas):
        machine._outbox = outbox
    world.c.partitions._election_service.slicer = outbox.slicer
    return world


async def cluster(topics: int = TOPICS, partitions: int = PARTITIONS) -> World:
    world = always_yielding_machines(World())
    for broker in BROKERS:
        world.register(broker)
    await world.start()
    put_topics(world, "t", topics, partitions)
    return await world.settle()


async def a_controller_takes_over(world: World) -> None:
    await always_yielding_machines(World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)).start()


async def a_broker_dies(world: World) -> None:
    world.die(1)
    await world.settle()


async def a_broker_bounces(world: World) -> None:
    world.bounce(1)
    await world.settle()


async def a_broker_leaves(world: World) -> None:
    await world.call(ControlledShutdown(BrokerId(2), world.context.epochs()[BrokerId(2)]))


async def topics_are_created(world: World) -> None:
    put_topics(world, "new")
    await world.settle()


async def a_client_creates_topics(world: World) -> None:
    requests = tuple(TopicRequest(f"new{topic}", PARTITIONS, 3) for topic in range(TOPICS))
    await world.call(CreateTopics(ALICE, requests))


async def a_client_enlarges_topics(world: World) -> None:
    requests = tuple(GrowthRequest(f"t{topic}", 2 * PARTITIONS) for topic in range(TOPICS))
    await world.call(CreatePartitions(ALICE, requests))


@pytest.mark.parametrize(
    "step",
    [
        a_controller_takes_over,
        a_broker_dies,
        a_broker_bounces,
        a_broker_leaves,
        topics_are_created,
        a_client_creates_topics,
        a_client_enlarges_topics,
    ],
)
async def test_no_pass_over_the_partitions_blocks_the_event_loop(step: Step) -> None:
    world = await cluster()
    if step is a_controller_takes_over:
        world.zk.expire()
    stretches = Stretches()

    await stretches.over(step(world))

    assert stretches.total > 4 * LINES_OF_A_SLICE, "the cluster is too small to show anything"
    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]


# -- events within such a turn -----------------------------------------------------------------------------------------


class InTurn:
    """Calls a function in the n-th turn of the event loop from now on."""

    def __init__(self, number: int, action: Callable[[], None]) -> None:
        self._left = number
        self._action = action
        self.is_done = False
        self._task = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        while self._left:
            self._left -= 1
            await asyncio.sleep(0)
        self.is_done = True
        self._action()

    def cancel(self) -> None:
        self._task.cancel()


def lose_the_session(world: World) -> None:
    """Expire the session as ``ZooKeeperSession`` does; the next session exists after ``Expire``."""

    def next_session() -> None:
        world.zk.reconnect_as(77)
        world.queue.put(RegisterBrokerAndReelect())

    world.c.role.session_expired = next_session
    world.zk.expire()
    world.channels.shutdown()
    world.queue.clear_and_put(Expire(1))


def updates_sent(world: World) -> Iterator[int]:
    """The number of UpdateMetadata requests that each surviving broker was sent."""
    for broker in BROKERS[1:]:
        yield sum(isinstance(request, UpdateMetadataRequest) for request in world.channels.to(broker))


@pytest.mark.parametrize("number", range(1, 20))
async def test_a_session_lost_between_two_slices_leaves_nothing_half_sent(number: int) -> None:
    world = await cluster(topics=5, partitions=4)
    world.forget()
    sent: list[int] = []

    def lose() -> None:
        sent.extend(updates_sent(world))
        lose_the_session(world)

    turn = InTurn(number, lose)
    world.die(1)
    await world.loop.handle(await world.queue.take())
    turn.cancel()

    if turn.is_done:
        assert len(set(sent)) == 1, "some brokers were sent the update and others were not"
        assert list(updates_sent(world)) == sent, "something left after the session was lost"
    await world.settle()
    assert_in_order(world)
