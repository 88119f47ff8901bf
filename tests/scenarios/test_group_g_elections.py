"""Group G, elections: preferred by znode, automatic, and together with reassignments."""

import json

from controllerd.core.cluster_settings import Policy
from events.elections import AutoPreferredReplicaLeaderElection
from tests.fakes.world import World, tp
from tests.scenarios.acts import (
    PREFERRED_ELECTION,
    alter_isr,
    bring_back,
    cluster,
    election_request,
    fire,
    kill,
    leader,
    request_election,
    with_topic,
)

CHECK = AutoPreferredReplicaLeaderElection()


async def restarted_and_caught_up(world: World, broker: int, topic: str) -> None:
    """The broker dies, returns, and joins the ISR of the partition again."""
    await kill(world, broker)
    await bring_back(world, broker)
    await alter_isr(world, topic, *world.state(topic)[2], broker)


async def test_g13_a_preferred_election_by_znode_gives_leadership_back_once_and_once_more() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    for epoch in (2, 4):
        await restarted_and_caught_up(world, 1, "t")
        assert leader(world, "t") == (2, epoch - 1)

        await request_election(world, tp("t"))

        assert leader(world, "t") == (1, epoch)
        assert PREFERRED_ELECTION not in world.tree.nodes


async def test_g13_a_second_request_written_into_the_znode_while_the_first_is_served_is_not_lost_kafka_6146() -> None:
    world = await cluster(1, 2)
    for topic in ("t", "u"):
        await with_topic(world, topic, 1, 2)
    await kill(world, 1)
    await bring_back(world, 1)
    for topic in ("t", "u"):
        await alter_isr(world, topic, 2, 1)
    next_write = len(world.zk.transactions) + 1
    world.zk.before_transaction[next_write] = lambda: world.tree.put(PREFERRED_ELECTION, election_request(tp("u")))

    await request_election(world, tp("t"))

    assert leader(world, "t") == leader(world, "u") == (1, 2)
    assert PREFERRED_ELECTION not in world.tree.nodes


async def test_g14_without_the_preferred_replica_the_znode_goes_and_the_leader_stays() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await kill(world, 1)

    await request_election(world, tp("t"))

    assert leader(world, "t") == (2, 1)
    assert PREFERRED_ELECTION not in world.tree.nodes


async def test_g15_leadership_returns_after_a_restart_without_a_request() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await restarted_and_caught_up(world, 1, "t")

    await fire(world, CHECK)

    assert leader(world, "t") == (1, 2)


async def test_g15_the_first_check_comes_after_five_seconds_and_every_interval_from_then_on() -> None:
    world = await cluster(1, 2, policy=Policy(leader_imbalance_check_interval_s=7.0))
    assert (5.0, CHECK) in world.timers.later

    await fire(world, CHECK)

    assert (7.0, CHECK) in world.timers.later


async def test_g16_another_partition_that_is_stuck_in_its_reassignment_does_not_hinder_kafka_10149() -> None:
    world = await cluster(1, 2, 3)
    await with_topic(world, "t", 1, 2)
    await with_topic(world, "stuck", 2)
    await kill(world, 3)
    await reassign(world, "stuck", 3)
    assert leader(world, "stuck") == (2, 1)
    await restarted_and_caught_up(world, 1, "t")

    await fire(world, CHECK)
    assert leader(world, "t") == (1, 2)
    assert world.context.being_reassigned == {tp("stuck")}

    await bring_back(world, 3)
    await alter_isr(world, "stuck", 2, 3)
    assert leader(world, "stuck") == (3, 4)
    assert world.context.being_reassigned == set()


async def test_g16_a_check_between_the_last_isr_and_the_end_of_a_move_costs_no_epoch() -> None:
    """The end of the move elects a leader; the check was in the queue before it."""
    world = await with_topic(await cluster(1, 2, 3), "t", 1)
    await reassign(world, "t", 3)
    next_write = len(world.zk.transactions) + 1
    world.zk.before_transaction[next_write] = lambda: world.queue.put(CHECK)

    await alter_isr(world, "t", 1, 3)

    assert leader(world, "t") == (3, 3)
    assert world.context.being_reassigned == set()


async def test_g16_a_partition_that_is_stuck_itself_is_led_by_its_preferred_replica_again_kafka_10149() -> None:
    world = await cluster(1, 2, 3)
    await with_topic(world, "t", 1, 2)
    await kill(world, 3)
    await reassign(world, "t", 1, 3)
    await kill(world, 1)
    await bring_back(world, 1)
    await alter_isr(world, "t", 2, 1)
    before = world.state("t")[1]

    await fire(world, CHECK)
    assert leader(world, "t") == (1, before + 1)
    assert world.context.being_reassigned == {tp("t")}

    await bring_back(world, 3)
    await alter_isr(world, "t", 2, 1, 3)
    assert (world.state("t")[0], world.state("t")[2]) == (1, [1, 3])
    assert world.context.being_reassigned == set()


async def reassign(world: World, topic: str, *replicas: int) -> None:
    """Request other replicas by znode as a tool does; such a request is not validated beforehand."""
    move = {"topic": topic, "partition": 0, "replicas": list(replicas)}
    world.tree.put("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": [move]}).encode())
    await world.settle()
