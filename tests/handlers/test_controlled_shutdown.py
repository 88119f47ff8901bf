"""Controlled shutdown: leaderships move first, then followers stop; the reply lists the leaderships that remain."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from events.admin import ControlledShutdown
from tests.fakes.world import World, tp


async def test_leadership_moves_and_the_leaving_broker_is_sent_the_new_leader_too(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.forget()

    reply = await world.call(ControlledShutdown(BrokerId(1), -1))

    assert (reply.error, reply.remaining) == (KafkaError.NONE, frozenset())
    assert world.state("t") == (2, 1, [2, 3], 1)
    expected = ["LeaderAndIsr(t-0 2/1 [2, 3])", "UpdateMetadata(t-0 2/1 [2, 3] offline [1])"]
    for broker in (1, 2, 3):
        assert world.brief(broker) == expected


async def test_a_follower_is_stopped_before_it_leaves_the_isr(world: World) -> None:
    world.put_topic("f", {0: [2, 1, 3]})
    await world.settle()
    world.forget()

    await world.call(ControlledShutdown(BrokerId(1), -1))

    assert world.brief(1) == [
        "StopReplica(f-0 0)",
        "UpdateMetadata(f-0 2/1 [2, 3] offline [1])",
        "StopReplica(f-0 0)",
    ]
    assert world.state("f") == (2, 1, [2, 3], 1)


async def test_a_partition_that_cannot_move_is_listed_as_remaining(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.die(2)
    await world.settle()

    reply = await world.call(ControlledShutdown(BrokerId(1), -1))

    assert reply.remaining == {tp("t")}


async def test_a_partition_without_other_replica_does_not_hold_the_broker_up(world: World) -> None:
    world.put_topic("t", {0: [1]})
    await world.settle()

    reply = await world.call(ControlledShutdown(BrokerId(1), -1))

    assert reply.remaining == frozenset()


async def test_an_older_broker_epoch_is_refused_as_stale(world: World) -> None:
    epoch = world.context.epochs()[BrokerId(1)]

    reply = await world.call(ControlledShutdown(BrokerId(1), epoch - 1))

    assert reply.error is KafkaError.STALE_BROKER_EPOCH
    assert world.context.shutting_down == set()


async def test_an_unknown_broker_is_refused_as_not_available(world: World) -> None:
    reply = await world.call(ControlledShutdown(BrokerId(9), -1))

    assert reply.error is KafkaError.BROKER_NOT_AVAILABLE


async def test_a_broker_that_returns_is_no_longer_shutting_down(world: World) -> None:
    await world.call(ControlledShutdown(BrokerId(1), -1))
    world.die(1)
    await world.settle()

    world.register(1)
    await world.settle()

    assert BrokerId(1) in world.context.live


async def test_a_broker_that_bounced_unnoticed_and_shuts_down_at_once_is_not_elected(world: World) -> None:
    """BrokerChange is handled after the request. It must not clear the mark that the broker is shutting down."""
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    epoch = world.bounce(1)
    waiting = [await world.queue.take() for _ in range(len(world.queue))]

    reply = await world.call(ControlledShutdown(BrokerId(1), epoch))
    for queued in waiting:
        world.queue.put(queued.event)
    await world.settle()

    assert (reply.error, reply.remaining) == (KafkaError.NONE, frozenset())
    assert BrokerId(1) in world.context.shutting_down
    assert 1 not in world.state("t")[2]
