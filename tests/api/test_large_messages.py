"""Large messages are decoded and encoded in a thread beside the event loop; small ones in the loop itself."""

import asyncio
import threading
import time
from typing import Final

import pytest

from controllerd.api.large_messages import SMALL, run_in_thread_if_large
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.errors import CallFailed
from events.base import Event
from events.reassignments import ApiPartitionReassignment
from tests.api.cluster import NODE_ID, PATIENCE_S, running
from wire.framing import RequestHeader, encode_request_header
from wire.primitives import FLEXIBLE, uvarint
from wire.versions import ApiKey


async def test_a_small_message_is_handled_in_the_event_loop() -> None:
    assert await run_in_thread_if_large(SMALL, threading.get_ident) == threading.get_ident()


async def test_a_large_message_is_handled_in_a_thread() -> None:
    assert await run_in_thread_if_large(SMALL + 1, threading.get_ident) != threading.get_ident()


async def test_large_messages_of_clients_do_not_block_the_lookup_of_host_names() -> None:
    may_end = threading.Event()
    works = [asyncio.create_task(run_in_thread_if_large(SMALL + 1, may_end.wait)) for _ in range(40)]
    await asyncio.sleep(0)  # now every message is being handled, or waits for a thread
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await asyncio.get_running_loop().getaddrinfo("localhost", 9092)
    finally:
        may_end.set()
        await asyncio.gather(*works)


async def test_a_request_for_very_many_partitions_is_answered_for_each() -> None:
    def accept(event: Event) -> object:
        assert isinstance(event, ApiPartitionReassignment)
        return dict.fromkeys(event.targets, KafkaError.NONE)

    rows = [{"partition_index": number, "replicas": (1, 2, 3)} for number in range(10 * SMALL)]
    async with running(handler=accept) as cluster:
        client = await cluster.connect()
        await client.ask(18, 3)  # a connection without any answer may only send a small frame

        entity = await client.ask(45, 0, topics=[{"name": "orders", "partitions": rows}])

        (event,) = cluster.events
        assert isinstance(event, ApiPartitionReassignment)
        assert TopicPartition("orders", 10 * SMALL - 1) in event.targets
        assert [row.partition_index for row in entity.responses[0].partitions] == list(range(10 * SMALL))


def _head(key: ApiKey, version: int) -> bytes:
    return encode_request_header(RequestHeader(key, version, 7, "test"))


def _array(items: int, item: bytes) -> bytes:
    return uvarint(items + 1) + items * item


MANY: Final = 6_000
LITTLE: Final = 0.2
"""The event loop does at most this share of the work: it receives, hands over and sends. Decoding is the largest."""
LARGE: Final = {
    "metadata": _head(ApiKey.METADATA, 9) + _array(MANY, FLEXIBLE.string("orders") + b"\0") + bytes(4),
    "configs": _head(ApiKey.DESCRIBE_CONFIGS, 4)
    + _array(MANY, b"\4" + FLEXIBLE.string(str(NODE_ID)) + b"\0\0")
    + bytes(3),
    "transactions": _head(ApiKey.LIST_TRANSACTIONS, 0) + _array(MANY, FLEXIBLE.string("Dead")) + b"\1\0",
    "groups": _head(ApiKey.LIST_GROUPS, 5) + _array(MANY, FLEXIBLE.string("Dead")) + b"\1\0",
    "log dirs": _head(ApiKey.DESCRIBE_LOG_DIRS, 4) + _array(MANY, FLEXIBLE.string("orders") + b"\1\0") + b"\0",
    "features": _head(ApiKey.UPDATE_FEATURES, 1)
    + bytes(4)
    + _array(MANY, FLEXIBLE.string("x") + b"\0\1\1\0")
    + b"\0\0",
    "reassignments": _head(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    + bytes(4)
    + _array(MANY, FLEXIBLE.string("orders") + b"\1\0")
    + b"\0",
    "isr changes": _head(ApiKey.ALTER_PARTITION, 1)
    + bytes(12)
    + _array(MANY, FLEXIBLE.string("orders-of-all-customers-in-all-countries") + b"\1\0")
    + b"\0",
}


@pytest.mark.parametrize("frame", LARGE.values(), ids=LARGE)
async def test_a_large_request_of_any_api_is_decoded_beside_the_event_loop(frame: bytes) -> None:
    async with running(handler=lambda _event: CallFailed("not in this test")) as cluster:
        client = await cluster.connect()
        in_loop_s, in_all_s = time.thread_time(), time.process_time()
        await client.send(frame)
        assert await client.receive() is not None
        in_loop_s, in_all_s = time.thread_time() - in_loop_s, time.process_time() - in_all_s
    assert in_loop_s < LITTLE * in_all_s


async def test_very_many_unknown_topics_are_answered_once_each() -> None:
    named = [{"name": f"t{number % MANY}", "topic_id": None} for number in range(2 * MANY)]
    async with running() as cluster:
        client = await cluster.connect()
        await client.ask(18, 3)
        entity = await client.ask(3, 12, topics=named)
    assert [topic.name for topic in entity.topics] == [f"t{number}" for number in range(MANY)]
