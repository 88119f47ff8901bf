"""Group E: a broker asks the controller to move its leaderships away before it stops."""

import asyncio
import time

import pytest

from channel_manager.manager import Alarms, ChannelManager
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from events.admin import ControlledShutdown, ControlledShutdownReply
from tests.channel_manager.requests import CONTROLLER, leader_and_isr
from tests.channel_manager.stub_broker import Act, stub_broker
from tests.fakes.world import World, tp
from tests.scenarios.acts import alter_isr, bring_back, cluster, kill, take_over, with_topic


async def shut_down(world: World, broker: int, *, epoch: int = -1) -> ControlledShutdownReply:
    return await world.call(ControlledShutdown(BrokerId(broker), epoch))


async def test_e1_of_three_brokers_that_shut_down_the_last_one_keeps_its_partition_kafka_999() -> None:
    world = await with_topic(await cluster(0, 1, 2), "t", 0, 1, 2)
    remaining = []
    for broker in (2, 1, 0):
        reply = await shut_down(world, broker)
        assert reply.error is KafkaError.NONE
        remaining.append(len(reply.remaining))
        if broker:
            await kill(world, broker)

    assert remaining == [0, 0, 1]
    assert world.state("t")[::2] == (0, [0])
    leadership = world.context.leadership(tp("t"))
    assert leadership is not None
    assert leadership.leader == 0


async def test_e2_a_request_of_an_earlier_life_of_the_broker_moves_nothing() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    epoch = world.context.epochs()[BrokerId(1)]
    world.forget()

    reply = await shut_down(world, 1, epoch=epoch - 1)

    assert reply == ControlledShutdownReply(KafkaError.STALE_BROKER_EPOCH, frozenset())
    assert world.zk.writes == []
    assert world.channels.sent == []
    assert BrokerId(1) in world.context.live


@pytest.mark.parametrize("epoch", [-1, 0, 12_345])
async def test_e2_an_unknown_broker_is_not_available(epoch: int) -> None:
    """Kafka answers with an unknown server error where an epoch is given.

    The reason is the same, so ours is one error.
    """
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    world.forget()

    reply = await shut_down(world, 9, epoch=epoch)

    assert reply == ControlledShutdownReply(KafkaError.BROKER_NOT_AVAILABLE, frozenset())
    assert world.zk.writes == []


async def test_e3_both_the_old_and_the_new_leader_get_the_change_kafka_7482() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    world.forget()

    await shut_down(world, 1)

    for broker in (1, 2):
        assert world.brief(broker)[0] == "LeaderAndIsr(t-0 2/1 [2])"


async def test_e3_a_leader_gets_no_stop_replica_before_another_replica_leads_kafka_705() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    world.forget()

    await shut_down(world, 1)

    assert not [sentence for sentence in world.brief(1) if sentence.startswith("StopReplica")]


async def test_e4_a_follower_leaves_the_isr_and_is_stopped_without_losing_its_data() -> None:
    world = await with_topic(await cluster(1, 2), "t", 2, 1)
    world.forget()

    await shut_down(world, 1)

    assert world.state("t")[:3] == (2, 1, [2])
    stops = [sentence for sentence in world.brief(1) if sentence.startswith("StopReplica")]
    assert stops == ["StopReplica(t-0 0)", "StopReplica(t-0 0)"]


@pytest.mark.parametrize(
    ("version", "expected"), [(1, KafkaError.OPERATION_NOT_ATTEMPTED), (2, KafkaError.INELIGIBLE_REPLICA)]
)
async def test_e5_a_replica_that_shuts_down_does_not_come_back_into_the_isr_kafka_14140(
    version: int, expected: KafkaError
) -> None:
    world = await with_topic(await cluster(1, 2), "t", 2, 1)
    await shut_down(world, 1)

    reply = await alter_isr(world, "t", 2, 1, version=version)

    assert reply.error is KafkaError.NONE
    assert reply.partitions == {tp("t"): expected}
    assert world.state("t")[2] == [2]


async def test_e5_a_leader_that_shuts_down_and_cannot_be_relieved_may_not_grow_its_isr_kafka_14140() -> None:
    """The trace C7B: the proposed ISR contains the leader itself, which is shutting down."""
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await alter_isr(world, "t", 1)
    reply = await shut_down(world, 1)
    assert reply.remaining == {tp("t")}

    refused = await alter_isr(world, "t", 1, 2)

    assert refused.partitions == {tp("t"): KafkaError.INELIGIBLE_REPLICA}
    assert world.state("t")[::2] == (1, [1])


async def test_e6_a_broker_that_returns_is_shutting_down_no_longer() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await shut_down(world, 1)
    await kill(world, 1)
    await kill(world, 2)
    assert world.state("t")[0] == -1

    await bring_back(world, 1)
    await bring_back(world, 2)

    assert BrokerId(1) in world.context.live
    assert world.state("t")[0] == 2
    await alter_isr(world, "t", 2, 1)
    assert world.state("t")[2] == [2, 1]


async def test_e6_a_shutdown_that_was_given_up_is_forgotten_by_the_next_controller() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    await shut_down(world, 1)

    successor = await take_over(world)

    assert BrokerId(1) in successor.context.live


async def test_e7_a_controller_stops_though_a_broker_never_answers_its_requests() -> None:
    alarms = Alarms(stale_epoch=_ignore, caught_up=_ignore, defect=_ignore)
    async with stub_broker(1, Act(silence=True)) as stub, asyncio.timeout(10):
        async with ChannelManager(CONTROLLER, "PLAINTEXT", _ignore, alarms, clock=time.monotonic) as channels:
            channels.add_broker(stub.registration())
            channels.send(BrokerId(1), leader_and_isr())
            await stub.until(lambda: len(stub.got) == 1)

            channels.shutdown()

        await stub.until(lambda: stub.open_now == 0)


def _ignore(*_: object) -> None:
    """Ignore the call."""
