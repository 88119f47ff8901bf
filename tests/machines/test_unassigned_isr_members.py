"""Unassigned ISR members are removed from the ISR; a removal that fails is retried later."""

import json
from collections.abc import Sequence

from controllerd.core.model import TopicPartition
from tests.fakes.reassigning import successor
from tests.fakes.world import World, tp


async def with_isr(isr: Sequence[int], *, partitions: int = 1, refused: bool = False) -> World:
    """Partitions with the replicas [1, 2] and this ISR, under the next controller."""
    world = World()
    for broker in (1, 2, 3, 4):
        world.register(broker)
    await world.start()
    world.put_topic("t", dict.fromkeys(range(partitions), (1, 2)))
    await world.settle()
    for path in [TopicPartition("t", number).state_path for number in range(partitions)]:
        state = json.loads(world.tree.nodes[path].data or b"")
        world.tree.put(path, json.dumps({**state, "isr": list(isr)}).encode())
    if not refused:
        return await successor(world)
    world.zk.expire()
    after = World(tree=world.tree, session_id=2)
    after.zk.read_only.add(tp("t").state_path)
    return await after.start()


async def test_several_unassigned_isr_members_of_one_partition_are_removed() -> None:
    world = await with_isr([1, 2, 3, 4])

    assert world.state("t")[2] == [1, 2]
    assert not world.c.reassigner.unfinished


async def test_an_unassigned_isr_member_that_cannot_be_removed_is_retried_later() -> None:
    world = await with_isr([1, 2, 3], refused=True)

    assert world.state("t")[2] == [1, 2, 3]
    assert world.c.reassigner.unfinished.take() == [tp("t")]


async def test_an_unassigned_broker_that_is_the_only_isr_member_stays_and_is_not_retried() -> None:
    world = await with_isr([3])

    assert world.state("t")[2] == [3]
    assert not world.c.reassigner.unfinished


async def test_an_unassigned_isr_member_of_many_partitions_is_sent_one_stop_replica() -> None:
    world = await with_isr([1, 2, 3], partitions=50)

    assert sum(text.startswith("StopReplica") for text in world.brief(3)) == 1
