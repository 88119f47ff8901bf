"""A stock client decodes the answers of controllerd: librdkafka's view of the cluster, through one listener alone."""

import asyncio

import pytest
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId
from controllerd.core.model import TopicPartition as Partition
from events.admin import MutationReply, TopicOutcome
from tests.api.cluster import NODE_ID, Cluster, partition, put_topic, running, until

EXISTS = TopicOutcome(Refusal(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."))


def admin_of(cluster: Cluster) -> AdminClient:
    endpoint = cluster.server.advertised[0]
    return AdminClient({"bootstrap.servers": f"{endpoint.host}:{endpoint.port}", "log_level": 0})


async def closed_broker(cluster: Cluster) -> None:
    """A registered broker that accepts no connection any more, so that the client asks controllerd alone."""
    client = await cluster.connect()
    await client.ask(18, 3)
    await cluster.brokers[1].close()


async def test_librdkafka_lists_the_topics_and_the_controller() -> None:
    async with running(brokers=1) as cluster:
        await closed_broker(cluster)
        admin = admin_of(cluster)

        listed = await asyncio.to_thread(admin.list_topics, timeout=10)

        assert str(listed.cluster_id) == "the-cluster"
        assert listed.controller_id == NODE_ID
        assert set(listed.brokers) == {1, NODE_ID}
        assert {number: row.leader for number, row in listed.topics["orders"].partitions.items()} == {0: 1, 1: -1}


async def test_librdkafka_describes_the_cluster() -> None:
    async with running(brokers=1) as cluster:
        await closed_broker(cluster)
        admin = admin_of(cluster)

        described = await asyncio.to_thread(lambda: admin.describe_cluster(request_timeout=10).result(10))

        assert described.controller is not None
        assert described.controller.id == NODE_ID


async def test_librdkafka_elects_leaders() -> None:
    outcomes = {Partition("orders", 0): BrokerId(1), Partition("orders", 1): KafkaError.PREFERRED_LEADER_NOT_AVAILABLE}
    async with running(handler=lambda _: outcomes) as cluster:
        admin = admin_of(cluster)
        wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        future = admin.elect_leaders(ElectionType.PREFERRED, wanted)

        results = await asyncio.to_thread(future.result, 10)

        by_partition = {tp.partition: error for tp, error in results.items()}
        assert by_partition[0] is None
        assert by_partition[1].code() == KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
        assert "Failed to elect leader for partition orders-1" in by_partition[1].str()


async def test_librdkafka_creates_a_topic_and_waits_until_it_is_led() -> None:
    made = MutationReply({"new": TopicOutcome(None, None, frozenset({0}), 1), "orders": EXISTS})
    async with running(handler=lambda _: made) as cluster:
        wanted = [NewTopic("new", 1, 1, config={"cleanup.policy": "compact"}), NewTopic("orders", 1, 1)]
        admin = admin_of(cluster)
        futures = admin.create_topics(wanted, operation_timeout=10)
        await until(lambda: cluster.events)
        put_topic(cluster.snapshot, "new", None, partition(0, 1, 1))
        cluster.snapshot.announce()

        assert await asyncio.to_thread(futures["new"].result, 10) is None
        failed = await asyncio.to_thread(futures["orders"].exception, 10)

        assert isinstance(failed, KafkaException)
        assert failed.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        assert "already exists" in failed.args[0].str()


async def test_librdkafka_adds_partitions_to_a_topic() -> None:
    grown = MutationReply({"orders": TopicOutcome(partitions=frozenset({1}))})
    async with running(handler=lambda _: grown) as cluster:
        admin = admin_of(cluster)
        futures = admin.create_partitions([NewPartitions("orders", 2, [[2]])], operation_timeout=10)
        assert await asyncio.to_thread(futures["orders"].result, 10) is None


async def test_librdkafka_deletes_a_topic() -> None:
    async with running(handler=lambda _: MutationReply({"gone": TopicOutcome()})) as cluster:
        admin = admin_of(cluster)
        futures = admin.delete_topics(["gone"], operation_timeout=10)
        assert await asyncio.to_thread(futures["gone"].result, 10) is None


async def test_a_transactional_producer_gets_a_retriable_error_while_no_broker_is_live() -> None:
    """A fatal error would end the producer for good, though nothing is wrong with it."""
    async with running() as cluster:
        endpoint = cluster.server.advertised[0]
        producer = Producer(
            {
                "bootstrap.servers": f"{endpoint.host}:{endpoint.port}",
                "transactional.id": "orders",
                "log_level": 0,
            }
        )

        with pytest.raises(KafkaException) as refused:
            await asyncio.to_thread(producer.init_transactions, 3.0)

        error = refused.value.args[0]
        assert (error.name(), error.fatal(), error.retriable()) == ("_TIMED_OUT", False, True)
