"""A reassignment completes when its target becomes the ISR by an unclean election, without an AlterPartition."""

from collections.abc import Awaitable, Callable

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from tests.fakes.reassigning import assigned, change_isr, reassign
from tests.fakes.world import World, tp
from tests.handlers.test_reassignments import with_topic

ALLOWS_UNCLEAN = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'


async def moving_to_two(world: World) -> None:
    """The only replica moves from broker 1 to broker 2, which has not caught up."""
    await with_topic(world, 1)
    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.NONE}
    await world.settle()
    assert world.state("t")[2] == [1]


async def by_the_configuration(world: World) -> None:
    world.tree.put("/config/topics/t", ALLOWS_UNCLEAN)
    world.die(1)


async def by_request(world: World) -> None:
    world.die(1)
    await world.settle()
    event = ReplicaLeaderElection(frozenset({tp("t")}), ElectionType.UNCLEAN, ElectionTrigger.ADMIN_CLIENT)
    assert await world.call(event) == {tp("t"): BrokerId(2)}


@pytest.mark.parametrize("elect", [by_the_configuration, by_request])
async def test_a_reassignment_ends_when_an_unclean_election_makes_its_target_the_isr(
    world: World, elect: Callable[[World], Awaitable[None]]
) -> None:
    await moving_to_two(world)

    await elect(world)
    await world.settle()

    assert world.state("t")[0:3:2] == (2, [2])
    assert assigned(world, "t") == ([2], [], [])
    assert not world.c.context.being_reassigned


async def test_all_partitions_that_lose_their_isr_at_once_end_their_reassignments(world: World) -> None:
    await with_topic(world, 1, partitions=20)
    assert await reassign(world, {tp("t", number): [2] for number in range(20)})
    world.tree.put("/config/topics/t", ALLOWS_UNCLEAN)

    world.die(1)
    await world.settle()

    assert assigned(world, "t", 0) == assigned(world, "t", 19) == ([2], [], [])
    assert not world.c.context.being_reassigned


async def test_a_target_of_two_is_complete_only_when_both_are_in_the_isr(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2, 3]})
    await by_the_configuration(world)
    await world.settle()
    assert world.state("t")[0:3:2] == (2, [2])
    assert tp("t") in world.c.context.being_reassigned

    await change_isr(world, "t", 2, 3)

    assert assigned(world, "t") == ([2, 3], [], [])


async def test_a_reassignment_that_is_cancelled_before_the_election_leaves_the_old_replicas(world: World) -> None:
    await with_topic(world, 1, 3)
    await change_isr(world, "t", 1)
    await reassign(world, {tp("t"): [2]})
    world.die(1)
    await world.settle()

    assert await reassign(world, {tp("t"): None}) == {tp("t"): KafkaError.NONE}
    event = ReplicaLeaderElection(frozenset({tp("t")}), ElectionType.UNCLEAN, ElectionTrigger.ADMIN_CLIENT)
    assert await world.call(event) == {tp("t"): BrokerId(3)}
    await world.settle()

    assert world.state("t")[0:3:2] == (3, [3])
    assert assigned(world, "t") == ([1, 3], [], [])
