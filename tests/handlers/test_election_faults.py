"""One fault at each transaction of a requested election: the election takes place all the same."""

import pytest

from events.cluster import RegisterBrokerAndReelect
from tests.fakes.world import World, tp
from tests.handlers.test_faults import (
    Fault,
    assert_in_order,
    expire_after,
    expire_before,
    fail_unexpectedly,
    lose_the_answer,
)
from tests.scenarios.acts import (
    PREFERRED_ELECTION,
    UNCLEAN,
    alter_isr,
    bring_back,
    cluster,
    configure,
    kill,
    leader,
    request_election,
    with_topic,
)

FAULTS = [lose_the_answer, expire_before, expire_after]
TOPICS = ("t", "u")


async def two_topics() -> World:
    world = await cluster(1, 2)
    for topic in TOPICS:
        await with_topic(world, topic, 1, 2)
    return world


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_preferred_election_by_znode_takes_place_once_despite_a_fault(fault: Fault, number: int) -> None:
    world = await two_topics()
    await kill(world, 1)
    await bring_back(world, 1)
    for topic in TOPICS:
        await alter_isr(world, topic, 2, 1)

    fault(world, number)
    await request_election(world, *map(tp, TOPICS))

    assert [leader(world, topic) for topic in TOPICS] == [(1, 2), (1, 2)]
    assert PREFERRED_ELECTION not in world.tree.nodes
    assert_in_order(world)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
async def test_unclean_elections_that_are_allowed_at_run_time_take_place_once_despite_a_fault(
    fault: Fault, number: int
) -> None:
    world = await two_topics()
    for topic in TOPICS:
        await alter_isr(world, topic, 1)
    await kill(world, 1)

    fault(world, number)
    await configure(world, "brokers/<default>", {UNCLEAN: "true"})

    assert [world.state(topic)[::2] for topic in TOPICS] == [(2, [2]), (2, [2])]
    assert_in_order(world)


async def test_a_defect_before_the_first_write_leaves_the_request_where_it_is_for_the_next_term() -> None:
    world = await two_topics()
    await kill(world, 1)
    await bring_back(world, 1)
    await alter_isr(world, "t", 2, 1)

    fail_unexpectedly(world, 1)
    await request_election(world, tp("t"))
    assert PREFERRED_ELECTION in world.tree.nodes

    world.tree.remove("/controller")
    world.queue.put(RegisterBrokerAndReelect())
    await world.settle()
    assert leader(world, "t") == (1, 2)
    assert PREFERRED_ELECTION not in world.tree.nodes


async def test_a_defect_after_the_first_write_begins_a_new_term_which_serves_the_request() -> None:
    world = await two_topics()
    await kill(world, 1)
    await bring_back(world, 1)
    await alter_isr(world, "t", 2, 1)

    fail_unexpectedly(world, 2)
    await request_election(world, tp("t"))

    assert leader(world, "t") == (1, 2)
    assert PREFERRED_ELECTION not in world.tree.nodes
    assert world.context.epoch == 2
