"""One real broker, one real producer, through a crash and a controlled shutdown."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from controllerd.dev.kafka import KafkaBroker, run_tool
from controllerd.dev.load import ProducerLoad
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.processes import DevError
from controllerd.dev.releases import tool_class
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.zookeeper import EmbeddedZooKeeper

TOPIC_COMMAND = tool_class("TopicCommand")


async def acknowledged(load: ProducerLoad, count: int, broker: KafkaBroker) -> None:
    async def enough() -> bool:
        return load.acknowledged >= count

    await broker.process.wait_until(enough, timeout_s=30, what=f"acknowledged {count} records")


async def leads(broker: KafkaBroker, topic: str) -> bool:
    """Whether the broker knows a leader of the topic; it answers even before its first UpdateMetadata."""
    client = AdminClient({"bootstrap.servers": broker.address})
    known = (await asyncio.to_thread(client.list_topics, topic, 10.0)).topics[topic]
    return known.error is None and all(partition.leader == broker.broker_id for partition in known.partitions.values())


@pytest.mark.kafka
@pytest.mark.zookeeper
@pytest.mark.usefixtures("kafka_jars")
async def test_a_broker_returns_from_a_crash_with_every_acknowledged_record(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with KafkaBroker(1, f"{zookeeper.connect}/kafka", tmp_path / "broker") as broker:
        create = ["--bootstrap-server", broker.address, "--create", "--topic", "orders", "--partitions", "2"]
        assert (await run_tool(TOPIC_COMMAND, create, directory=tmp_path)).exit_status == 0
        with ProducerLoad(broker.address, "orders", 2) as load:
            await acknowledged(load, 100, broker)
            await broker.restart()
            await acknowledged(load, load.acknowledged + 100, broker)
            result = await asyncio.to_thread(load.stop)
        assert verify(result.acknowledged, await asyncio.to_thread(consume_all, broker.address, "orders")).ok
        assert result.worst_gap_s() > 1.0
        assert not result.failures


@pytest.mark.kafka
@pytest.mark.zookeeper
@pytest.mark.usefixtures("kafka_jars")
async def test_a_paused_broker_does_not_answer_and_a_resumed_one_shuts_down_in_order(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with KafkaBroker(1, zookeeper.connect, tmp_path / "broker") as broker:
        broker.pause()
        assert not await broker.answering()
        broker.resume()
        assert await broker.terminate() == 143


@pytest.mark.kafka
@pytest.mark.zookeeper
@pytest.mark.releases
@pytest.mark.usefixtures("kafka_jars")
async def test_an_upgraded_broker_has_the_data_of_the_release_before(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with KafkaBroker(1, zookeeper.connect, tmp_path / "broker", version="2.8.2") as broker:
        create = ["--bootstrap-server", broker.address, "--create", "--topic", "orders"]
        topics = tool_class("TopicCommand", broker.version)
        assert (await run_tool(topics, create, directory=tmp_path, version=broker.version)).exit_status == 0
        with ProducerLoad(broker.address, "orders", 1) as load:
            await acknowledged(load, 100, broker)
            result = await asyncio.to_thread(load.stop)
        with pytest.raises(DevError, match="broker 1 runs"):
            broker.install(version="3.9.1")
        assert await broker.terminate() == 143

        broker.install(version="3.9.1", overrides={"inter.broker.protocol.version": "2.8"})
        await broker.start()

        assert broker.version == "3.9.1"
        assert "Kafka version: 3.9.1" in broker.process.log_file.read_text(encoding="utf-8")
        assert broker.properties()["inter.broker.protocol.version"] == "2.8"
        await broker.process.wait_until(lambda: leads(broker, "orders"), timeout_s=30, what="led the topic")
        assert verify(result.acknowledged, await asyncio.to_thread(consume_all, broker.address, "orders")).ok


@pytest.mark.zookeeper
async def test_overrides_change_and_remove_properties(tmp_path: Path) -> None:
    overrides = {"min.insync.replicas": "2", "replica.lag.time.max.ms": None}
    broker = KafkaBroker(7, f"{LOOPBACK}:1/kafka", tmp_path, overrides=overrides)
    properties = broker.properties()
    await broker.close()
    assert properties["min.insync.replicas"] == "2"
    assert "replica.lag.time.max.ms" not in properties
