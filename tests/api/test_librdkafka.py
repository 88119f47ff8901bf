"""A stock client reads what we write: librdkafka's view of the cluster, through our listener alone."""

import asyncio

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.model import TopicPartition as Partition
from tests.api.cluster import NODE_ID, Cluster, running


async def closed_broker(cluster: Cluster) -> None:
    """A broker that is registered and known but takes no connection any more, so that the client asks only us."""
    client = await cluster.connect()
    await client.ask(18, 3)
    await cluster.brokers[1].die()


async def test_librdkafka_lists_the_topics_and_the_controller() -> None:
    async with running(brokers=1) as cluster:
        await closed_broker(cluster)
        endpoint = cluster.server.advertised[0]
        admin = AdminClient({"bootstrap.servers": f"{endpoint.host}:{endpoint.port}", "log_level": 0})

        listed = await asyncio.to_thread(admin.list_topics, timeout=10)

        assert str(listed.cluster_id) == "the-cluster"
        assert listed.controller_id == NODE_ID
        assert set(listed.brokers) == {1, NODE_ID}
        assert {number: row.leader for number, row in listed.topics["orders"].partitions.items()} == {0: 1, 1: -1}


async def test_librdkafka_describes_the_cluster() -> None:
    async with running(brokers=1) as cluster:
        await closed_broker(cluster)
        endpoint = cluster.server.advertised[0]
        admin = AdminClient({"bootstrap.servers": f"{endpoint.host}:{endpoint.port}", "log_level": 0})

        described = await asyncio.to_thread(lambda: admin.describe_cluster(request_timeout=10).result(10))

        assert described.controller is not None
        assert described.controller.id == NODE_ID


async def test_librdkafka_has_leaders_elected() -> None:
    outcomes = {Partition("orders", 0): BrokerId(1), Partition("orders", 1): KafkaError.PREFERRED_LEADER_NOT_AVAILABLE}
    async with running(handler=lambda _: outcomes) as cluster:
        endpoint = cluster.server.advertised[0]
        admin = AdminClient({"bootstrap.servers": f"{endpoint.host}:{endpoint.port}", "log_level": 0})
        wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        future = admin.elect_leaders(ElectionType.PREFERRED, wanted)

        results = await asyncio.to_thread(future.result, 10)

        by_partition = {tp.partition: error for tp, error in results.items()}
        assert by_partition[0] is None
        assert by_partition[1].code() == KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
        assert "Failed to elect leader for partition orders-1" in by_partition[1].str()
