"""The producer ids of controllerd itself: one block after the other, no id twice, no client without an answer."""

import asyncio
from collections.abc import AsyncIterator, Callable

from controllerd.api.producer_ids import OwnProducerIds
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.errors import NotController
from events.admin import AllocateProducerIds, ProducerIdBlock
from events.base import Event
from events.queue import EventQueue
from tests.api.cluster import NODE_ID, Client, running


def blocks(length: int = 1000) -> Callable[[Event], ProducerIdBlock]:
    given = iter(range(5000, 10**9, length))
    return lambda _event: ProducerIdBlock(KafkaError.NONE, next(given), length)


async def first_id(client: Client) -> int:
    async with asyncio.timeout(5):
        while True:
            entity = await client.ask(22, 4)
            if entity.error_code == KafkaError.NONE:
                assert entity.producer_epoch == 0
                return int(entity.producer_id)
            assert entity.error_code == KafkaError.COORDINATOR_LOAD_IN_PROGRESS


async def test_the_first_client_gets_a_retriable_error_and_then_an_id() -> None:
    async with running(handler=blocks()) as cluster:
        client = await cluster.connect()
        early = await client.ask(22, 4)
        assert (early.error_code, early.producer_id) == (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, -1)
        assert await first_id(client) == 5000
        assert cluster.events == [AllocateProducerIds(BrokerId(NODE_ID), -1)]


async def test_every_id_is_given_once_across_blocks() -> None:
    async with running(handler=blocks(150)) as cluster:
        client = await cluster.connect()
        assert [await first_id(client) for _ in range(700)] == list(range(5000, 5700))


async def test_an_id_without_its_epoch_is_an_invalid_request() -> None:
    async with running(handler=blocks()) as cluster:
        client = await cluster.connect()
        assert (await client.ask(22, 4, producer_id=5)).error_code == KafkaError.INVALID_REQUEST


async def taken(ids: OwnProducerIds) -> AsyncIterator[int | None]:
    while True:
        yield ids.take(may_allocate=True)
        await asyncio.sleep(0)


async def test_a_failed_allocation_is_retried() -> None:
    queue = EventQueue(lambda: 0.0)
    ids = OwnProducerIds(queue, NODE_ID, retry_s=0.0)
    assert ids.take(may_allocate=True) is None
    (await queue.take()).fail(NotController("not yet"))
    async with asyncio.timeout(5):
        async for _ in taken(ids):
            if len(queue):
                break
    (await queue.take()).answer(ProducerIdBlock(KafkaError.NONE, 10, 1000))
    async with asyncio.timeout(5):
        assert [i async for i in _until_id(ids)] == [10]
    await ids.close()


async def _until_id(ids: OwnProducerIds) -> AsyncIterator[int]:
    async for number in taken(ids):
        if number is not None:
            yield number
            return


async def test_a_standby_allocates_no_block() -> None:
    queue = EventQueue(lambda: 0.0)
    ids = OwnProducerIds(queue, NODE_ID)
    assert ids.take(may_allocate=False) is None
    assert len(queue) == 0
