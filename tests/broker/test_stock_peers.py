"""Embedded brokers between stock software: a real Kafka broker is their controller, librdkafka their client."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from broker.embedded import EmbeddedBroker
from controllerd.core.model import TopicPartition
from controllerd.dev.kafka import KafkaBroker
from controllerd.zk import paths
from tests.broker.cluster import cluster, settings
from tests.broker.samples import T_ID
from tests.broker.stub_controller import StubController
from tests.broker.zookeeper import Registrations

States = list[dict[str, Any]]

PARTITIONS = {"0": [2, 3], "1": [3, 2], "2": [2, 3]}


@pytest.mark.zookeeper
async def test_librdkafka_lists_the_metadata_of_the_controller(
    connect: str, tmp_path: Path, controller: StubController
) -> None:
    async with cluster(connect, tmp_path, controller, 1) as running:
        # The client would ask any node that is listed, and the stub serves no clients.
        controller.hidden = True
        controller.place("t", 0, (1,))
        await controller.send_to_all()
        port = running.brokers[1].endpoint.port
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})

        listed = await asyncio.to_thread(admin.list_topics, timeout=10)

        assert (listed.controller_id, set(listed.brokers)) == (controller.id, {1})
        assert {number: row.leader for number, row in listed.topics["t"].partitions.items()} == {0: 1}


@pytest.fixture
async def stock(kafka_jars: None, connect: str, tmp_path: Path) -> AsyncIterator[KafkaBroker]:
    """Broker 1 of the cluster, a stock one, and so its controller."""
    async with KafkaBroker(1, connect, tmp_path / "stock") as broker:
        yield broker


async def partition_states(registrations: Registrations) -> States:
    """The partition states in ZooKeeper; empty where there is none."""
    nodes = [await registrations.node(paths.partition_state(TopicPartition("t", index))) for index in range(3)]
    return [json.loads(node.data or b"{}") if node is not None else {} for node in nodes]


async def until(registrations: Registrations, met: Callable[[States], bool]) -> None:
    """Wait until the partition states are as wanted."""
    async with asyncio.timeout(20):
        while not met(await partition_states(registrations)):  # noqa: ASYNC110 (polls another process)
            await asyncio.sleep(0.05)


@pytest.mark.kafka
@pytest.mark.zookeeper
@pytest.mark.usefixtures("stock")
async def test_embedded_brokers_obey_a_stock_controller(
    connect: str, tmp_path: Path, registrations: Registrations
) -> None:
    async with EmbeddedBroker(settings(connect, tmp_path, 2)) as two:
        async with EmbeddedBroker(settings(connect, tmp_path, 3)):
            document = {"version": 3, "topic_id": T_ID, "partitions": PARTITIONS}
            await registrations.create(
                paths.topic("t"), json.dumps(document | {"adding_replicas": {}, "removing_replicas": {}}).encode()
            )
            await until(registrations, lambda found: [state.get("isr") for state in found] == list(PARTITIONS.values()))
        await until(registrations, lambda found: all(state["isr"] == [2] for state in found))

        async with EmbeddedBroker(settings(connect, tmp_path, 3)):
            await until(registrations, lambda found: all(state["isr"] == [2, 3] for state in found))
            assert await two.shut_down()
            await until(registrations, lambda found: all(state["leader"] == 3 for state in found))
