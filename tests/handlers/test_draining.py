"""An operator drains a broker before it is stopped: as in a controlled shutdown, or of its leaderships alone."""

import pytest

from controllerd.core.model import BrokerId
from controllerd.errors import CallRefused, NotController
from events.cluster import Resign
from events.elections import AutoPreferredReplicaLeaderElection
from events.operator import DrainBroker, DrainReply, PauseCheck, Resume
from tests.fakes.reassigning import change_isr
from tests.fakes.world import World, tp

ONE = BrokerId(1)


def drain(*, leaders_only: bool = True, until_ms: int | None = None) -> DrainBroker:
    return DrainBroker(ONE, leaders_only, "a new disk", "ann", until_ms)


@pytest.fixture
async def cluster(world: World) -> World:
    """Broker 1 leads t-0, which others can lead, alone-0, which has no other replica, and short-0, whose ISR it is."""
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 1]})
    world.put_topic("alone", {0: [1]})
    await world.settle()
    world.die(3)
    await world.settle()
    world.put_topic("short", {0: [1, 3]})
    await world.settle()
    world.forget()
    return world


REMAINING = {tp("alone"): "it has no other replica", tp("short"): "no other replica is in its ISR [1]"}


async def test_leaderships_move_and_the_broker_stays_in_sync(cluster: World) -> None:
    reply = await cluster.call(drain())

    assert reply == DrainReply((tp("t"),), REMAINING)
    assert cluster.state("t") == (2, 2, [1, 2], 2)
    assert cluster.snapshot.shutting_down == frozenset()
    assert "LeaderAndIsr(t-0 2/2 [1, 2])" in cluster.brief(1)


async def test_a_whole_drain_is_the_controlled_shutdown_of_the_broker(cluster: World) -> None:
    reply = await cluster.call(drain(leaders_only=False))

    assert reply == DrainReply((tp("t"),), REMAINING)
    assert cluster.snapshot.shutting_down == {1}
    assert cluster.state("t")[2] == [2]
    assert cluster.state("t", 1)[2] == [2]
    assert list(cluster.snapshot.pauses) == ["drain-1"], "which outlives a failover, as the shutdown does not"


async def test_the_rebalance_returns_no_leadership_before_the_drain_ends(cluster: World) -> None:
    await cluster.call(drain())

    cluster.queue.put(AutoPreferredReplicaLeaderElection())
    await cluster.settle()
    assert cluster.state("t")[0] == 2

    cluster.clock.now += 3_600
    cluster.queue.put(AutoPreferredReplicaLeaderElection())
    await cluster.settle()
    assert cluster.state("t")[0] == 1


async def test_the_rebalance_returns_the_leadership_after_a_resume(cluster: World) -> None:
    await cluster.call(drain())

    await cluster.call(Resume("drain-1", "done", "ann"))
    cluster.queue.put(AutoPreferredReplicaLeaderElection())
    await cluster.settle()

    assert cluster.state("t")[0] == 1


async def test_a_drain_ends_when_the_broker_registers_anew(cluster: World) -> None:
    await cluster.call(drain())
    assert list(cluster.snapshot.pauses) == ["drain-1"]

    cluster.bounce(1)
    await cluster.settle()
    cluster.queue.put(PauseCheck())
    await cluster.settle()

    assert cluster.snapshot.pauses == {}


async def test_a_failover_does_not_return_the_leadership(cluster: World) -> None:
    await cluster.call(drain())
    cluster.zk.expire()
    after = await World(tree=cluster.tree, session_id=2).start()

    after.queue.put(AutoPreferredReplicaLeaderElection())
    await after.settle()

    assert list(after.snapshot.pauses) == ["drain-1"]
    assert after.state("t")[0] == 2


async def test_a_failover_returns_no_leadership_to_a_broker_that_was_drained_as_a_whole(cluster: World) -> None:
    await cluster.call(drain(leaders_only=False))
    cluster.zk.expire()
    after = await World(tree=cluster.tree, session_id=2).start()
    assert after.snapshot.shutting_down == frozenset()

    await change_isr(after, "t", 2, 1)
    after.queue.put(AutoPreferredReplicaLeaderElection())
    await after.settle()

    assert after.state("t")[0] == 2
    pause = after.snapshot.pauses["drain-1"]
    assert (pause.by, pause.reason) == ("ann", "a new disk")


async def test_a_drain_of_the_whole_broker_ends_when_it_registers_anew(cluster: World) -> None:
    await cluster.call(drain(leaders_only=False))

    cluster.bounce(1)
    await cluster.settle()
    await change_isr(cluster, "t", 2, 1)
    cluster.queue.put(AutoPreferredReplicaLeaderElection())
    await cluster.settle()

    assert cluster.state("t")[0] == 1


async def test_a_topic_that_is_being_deleted_is_not_moved(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.context.deletions.queue("t")

    reply = await world.call(drain())

    assert reply == DrainReply((), {tp("t"): "its topic is being deleted"})


async def test_a_replica_on_a_broker_that_is_shutting_down_cannot_take_over(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.context.mark_shutting_down(BrokerId(2))

    reply = await world.call(drain())

    assert reply.remaining == {tp("t"): "the others in its ISR [2] are not online, or are shutting down"}


async def test_a_drain_of_an_unregistered_broker_is_refused(world: World) -> None:
    with pytest.raises(CallRefused, match="broker 9 is not registered"):
        await world.call(DrainBroker(BrokerId(9), leaders_only=True, reason="", by="ann"))


async def test_a_drain_whose_end_has_passed_moves_no_leadership(cluster: World) -> None:
    with pytest.raises(CallRefused, match="over already"):
        await cluster.call(drain(until_ms=1))

    assert cluster.state("t")[0] == 1


async def test_a_standby_drains_no_broker(world: World) -> None:
    await world.call(Resign())

    with pytest.raises(NotController):
        await world.call(drain())
