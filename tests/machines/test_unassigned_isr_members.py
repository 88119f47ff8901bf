"""Members of ISRs without replica: they go, and who cannot go now is remembered."""

import json
from collections.abc import Sequence

from controllerd.core.model import TopicPartition
from tests.fakes.reassigning import successor
from tests.fakes.world import World, tp


async def invaded(isr: Sequence[int], *, partitions: int = 1, refused: bool = False) -> World:
    """[1,2] with this ISR, and the controller that leads next."""
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


async def test_several_strangers_of_one_partition_go_and_nothing_is_left_to_do() -> None:
    world = await invaded([1, 2, 3, 4])

    assert world.state("t")[2] == [1, 2]
    assert not world.c.reassigner.unfinished


async def test_a_stranger_that_cannot_go_now_is_remembered() -> None:
    world = await invaded([1, 2, 3], refused=True)

    assert world.state("t")[2] == [1, 2, 3]
    assert world.c.reassigner.unfinished.take() == [tp("t")]


async def test_where_nobody_else_is_in_sync_strangers_stay_and_are_not_asked_to_go_again() -> None:
    world = await invaded([3])

    assert world.state("t")[2] == [3]
    assert not world.c.reassigner.unfinished


async def test_strangers_of_many_partitions_are_stopped_by_one_request() -> None:
    world = await invaded([1, 2, 3], partitions=50)

    assert sum(text.startswith("StopReplica") for text in world.brief(3)) == 1
