"""Large messages are read and written beside the event loop; small ones where they are."""

import threading

from controllerd.api.apart import SMALL, apart
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from events.base import Event
from events.reassignments import ApiPartitionReassignment
from tests.api.cluster import running


async def test_little_work_is_done_at_once() -> None:
    assert await apart(SMALL, threading.get_ident) == threading.get_ident()


async def test_much_work_is_done_in_a_thread() -> None:
    assert await apart(SMALL + 1, threading.get_ident) != threading.get_ident()


async def test_a_request_for_very_many_partitions_is_answered_for_each() -> None:
    def accept(event: Event) -> object:
        assert isinstance(event, ApiPartitionReassignment)
        return dict.fromkeys(event.targets, KafkaError.NONE)

    rows = [{"partition_index": number, "replicas": (1, 2, 3)} for number in range(10 * SMALL)]
    async with running(handler=accept) as cluster:
        client = await cluster.connect()
        await client.ask(18, 3)  # who was never answered may only send a small frame

        entity = await client.ask(45, 0, topics=[{"name": "orders", "partitions": rows}])

        (event,) = cluster.events
        assert isinstance(event, ApiPartitionReassignment)
        assert TopicPartition("orders", 10 * SMALL - 1) in event.targets
        assert [row.partition_index for row in entity.responses[0].partitions] == list(range(10 * SMALL))
