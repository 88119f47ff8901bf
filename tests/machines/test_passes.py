"""Passes over many items let go of the event loop."""

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.machines.outbox import SLICE
from controllerd.machines.passes import by_broker, in_order, paced
from controllerd.pace import Pace
from tests.turns import Turns


async def test_a_pass_lets_go_of_the_loop_after_each_slice() -> None:
    with Turns() as turns:
        seen = [item async for item in paced(range(3 * SLICE), Pace(0.0))]

    assert seen == list(range(3 * SLICE))
    assert turns.count == 3


async def test_what_is_taken_out_meanwhile_is_still_passed() -> None:
    items = {1, 2, 3}

    async for item in paced(items, Pace()):
        items.discard(item)

    assert items == set()


async def test_partitions_come_by_broker_in_their_order() -> None:
    rows = [(TopicPartition("t", 1), (BrokerId(2), BrokerId(1))), (TopicPartition("t", 0), (BrokerId(2),))]

    found = await by_broker(row async for row in paced(rows, Pace()))

    assert found == {2: [TopicPartition("t", 1), TopicPartition("t", 0)], 1: [TopicPartition("t", 1)]}


async def test_partitions_are_put_in_the_order_that_sorting_gives() -> None:
    mixed = [TopicPartition(topic, partition) for partition in (10, 2, 0) for topic in ("b", "a-1", "a")]

    assert await in_order(mixed, Pace()) == sorted(mixed)
