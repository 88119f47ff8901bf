"""Blocks of producer ids are disjoint and increase, and each is a compare-and-set."""

import json

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from events.admin import AllocateProducerIds, ProducerIdBlock
from tests.fakes.world import NODE_ID, World

PATH = "/latest_producer_id_block"


def ask(world: World, broker: int = 1) -> AllocateProducerIds:
    return AllocateProducerIds(BrokerId(broker), world.context.epochs()[BrokerId(broker)])


async def test_blocks_follow_each_other_and_are_written_as_brokers_read_them(world: World) -> None:
    first = await world.call(ask(world))
    second = await world.call(ask(world, 2))

    assert (first, second) == (
        ProducerIdBlock(KafkaError.NONE, 0, 1000),
        ProducerIdBlock(KafkaError.NONE, 1000, 1000),
    )
    written = json.loads(world.tree.nodes[PATH].data or b"")
    assert written == {"version": 1, "broker": 2, "block_start": "1000", "block_end": "1999"}


async def test_a_block_that_another_controller_took_in_the_meantime_is_not_given_again(world: World) -> None:
    await world.call(ask(world))
    foreign = b'{"version":1,"broker":3,"block_start":"1000","block_end":"1999"}'
    world.zk.before_transaction[len(world.zk.transactions) + 1] = lambda: world.tree.put(PATH, foreign)

    block = await world.call(ask(world))

    assert block.start == 2000


async def test_a_stale_broker_epoch_is_refused(world: World) -> None:
    block = await world.call(AllocateProducerIds(BrokerId(1), 1))

    assert block.error is KafkaError.STALE_BROKER_EPOCH


async def test_an_unknown_broker_is_refused(world: World) -> None:
    block = await world.call(AllocateProducerIds(BrokerId(9), 1))

    assert block.error is KafkaError.BROKER_ID_NOT_REGISTERED


async def test_the_block_of_controllerd_itself_needs_no_registration(world: World) -> None:
    block = await world.call(AllocateProducerIds(BrokerId(NODE_ID), -1))

    assert block == ProducerIdBlock(KafkaError.NONE, 0, 1000)
