"""Deletions of many partitions yield to the event loop at every step."""

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.slicer import SLICE, Slicer
from controllerd.zk.access import Create
from events.admin import ForgetBroker
from events.topics import TopicDeletionStopReplicaResponseReceived
from tests.fakes.disks import Disks
from tests.fakes.world import World
from tests.handlers.test_slices import BROKERS, LINES_OF_A_SLICE, TOPICS, Stretches, put_topics

LINES_OF_AN_ANSWER_SLICE = 20 * SLICE
"""More lines than one slice of an answer executes, and fewer than a whole answer does."""


@pytest.fixture(autouse=True)
def always_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all machines and the store yield after every slice: without a clock, the lines are the same each time."""
    monkeypatch.setattr(Slicer, "is_due", True)


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


async def test_the_deletion_of_many_partitions_blocks_the_event_loop_at_no_step() -> None:
    disks = await cluster()
    mark_all(disks.world)
    stretches = Stretches()

    await stretches.over(disks.settle())

    assert disks.world.context.topics == {}
    assert stretches.total > 4 * LINES_OF_A_SLICE, "the cluster is too small to show anything"
    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]


async def test_the_answer_of_one_broker_is_handled_in_slices() -> None:
    world = (await cluster()).world
    mark_all(world)
    await world.settle()
    asked = dict.fromkeys(world.context.partitions_on(BrokerId(1)), KafkaError.NONE)
    epochs = world.context.epochs()[BrokerId(1)], world.context.epoch
    world.queue.put(TopicDeletionStopReplicaResponseReceived(BrokerId(1), *epochs, KafkaError.NONE, asked))
    stretches = Stretches()

    await stretches.over(world.settle())

    assert len(asked) > 3 * SLICE, "the answer is too short to show anything"
    assert stretches.longest[0] < LINES_OF_AN_ANSWER_SLICE, stretches.longest[1]


async def test_a_broker_that_is_forgotten_or_returns_blocks_the_event_loop_at_no_step() -> None:
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
    assert world.context.pending_deletions.brokers() == []
    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]
