"""A reassignment whose target leads by an unclean election, which no leader reports, is completed."""

from collections.abc import Awaitable, Callable

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from tests.fakes.reassigning import assigned, reassign
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
