"""Somebody else wrote a state znode: the leader's next wish is refused, and it waits for a newer leader epoch.

A broker gives a change of the ISR up for good on INVALID_UPDATE_VERSION, and ignores a LeaderAndIsr of the leader epoch
that it has. So whoever answers that owes it an election.
"""

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.zk import paths
from events.cluster import QuarantineCheck
from tests.fakes.world import World, tp
from tests.handlers.test_isr_change import ask, with_isr_of_two


async def test_a_wish_that_is_refused_because_we_know_a_newer_version_is_followed_by_an_election(world: World) -> None:
    """The state was touched while nobody led, so it was loaded with a version that its leader has never heard of."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    world.tree.put(path, world.tree.nodes[path].data)
    successor = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    world.zk.expire()
    await successor.start()
    before = successor.state("t")[1]

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_UPDATE_VERSION}
    assert successor.state("t")[1] > before, "the leader waits for ever: no newer leader epoch will come"


@pytest.mark.parametrize("asks_before_it_is_mended", [True, False])
async def test_a_state_that_was_mended_comes_back_with_a_newer_leader_epoch(
    world: World, asks_before_it_is_mended: bool
) -> None:
    """Broken: the leader is refused, and nobody can be elected. Mended: the leader still waits."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    sound = world.tree.nodes[path].data
    world.tree.put(path, b"not json")
    reply = await world.call(ask(world, (2, 3, 1)))
    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
    if asks_before_it_is_mended:
        await world.call(ask(world, (2, 3, 1)))
    world.tree.put(path, sound)
    before = world.state("t")[1]

    world.queue.put(QuarantineCheck())
    await world.settle()

    assert world.context.quarantine == {}
    assert world.state("t")[1] > before, "the leader waits for ever: no newer leader epoch will come"


async def test_a_leader_is_told_to_ask_again_while_its_state_is_in_quarantine(world: World) -> None:
    """Loaded in quarantine, the partition is as good as unknown; but a leader that hears so gives up for good."""
    await with_isr_of_two(world)
    path = paths.partition_state(tp("t"))
    world.tree.put(path, b"not json")
    successor = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    world.zk.expire()
    await successor.start()

    reply = await successor.call(ask(successor, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
