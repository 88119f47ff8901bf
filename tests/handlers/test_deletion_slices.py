"""Deletions of many partitions give the event loop its turns, at every step."""

import pytest

from controllerd.core.model import BrokerId
from controllerd.pace import Pace
from controllerd.zk.access import Create
from events.admin import ForgetBroker
from tests.fakes.disks import Disks
from tests.fakes.world import World
from tests.handlers.test_slices import BROKERS, LINES_OF_A_SLICE, TOPICS, Stretches, put_topics


@pytest.fixture(autouse=True)
def every_chance_of_a_turn_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """By every machine and by the store: no clock decides where a stretch ends, so the lines are the same each time."""
    monkeypatch.setattr(Pace, "is_due", True)


async def cluster() -> Disks:
    """Sixty topics of a hundred partitions."""
    disks = Disks(World())
    world = disks.world
    for broker in BROKERS:
        world.register(broker)
    await disks.start()
    put_topics(world, "t")
    await disks.settle()
    return disks


def mark_all(world: World) -> None:
    world.tree.outsider(*(Create(f"/admin/delete_topics/t{number}", None) for number in range(TOPICS)))


async def test_the_deletion_of_many_partitions_keeps_the_event_loop_at_no_step() -> None:
    disks = await cluster()
    mark_all(disks.world)
    stretches = Stretches()

    await stretches.over(disks.settle())

    assert disks.world.context.topics == {}
    assert stretches.total > 4 * LINES_OF_A_SLICE, "the cluster is too small to show anything"
    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]


async def test_a_broker_that_is_forgotten_or_returns_keeps_the_event_loop_at_no_step() -> None:
    disks = await cluster()
    world = disks.world
    world.die(1)
    await disks.settle()
    mark_all(world)
    await disks.settle()
    stretches = Stretches()

    world.queue.put(ForgetBroker(BrokerId(1), "burnt down"))
    await stretches.over(disks.settle())
    world.register(1)
    await stretches.over(disks.settle())

    assert world.context.topics == {}
    assert world.context.debts.brokers() == []
    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]
