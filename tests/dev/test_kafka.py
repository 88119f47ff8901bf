"""One real broker, one real producer, through a crash and a controlled shutdown."""

import asyncio
from pathlib import Path

import pytest

from controllerd.dev.kafka import KafkaBroker, run_tool
from controllerd.dev.load import ProducerLoad, consume_all, verify
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.zookeeper import EmbeddedZooKeeper

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"


async def acknowledged(load: ProducerLoad, count: int, broker: KafkaBroker) -> None:
    async def enough() -> bool:
        return load.acknowledged >= count

    await broker.process.wait_until(enough, timeout_s=30, what=f"acknowledged {count} records")


@pytest.mark.kafka
@pytest.mark.zookeeper
@pytest.mark.usefixtures("kafka_jars")
async def test_a_broker_comes_back_from_a_crash_with_all_that_it_acknowledged(
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


@pytest.mark.zookeeper
async def test_overrides_change_and_remove_properties(tmp_path: Path) -> None:
    overrides = {"min.insync.replicas": "2", "replica.lag.time.max.ms": None}
    broker = KafkaBroker(7, f"{LOOPBACK}:1/kafka", tmp_path, overrides=overrides)
    properties = broker.properties()
    await broker.close()
    assert properties["min.insync.replicas"] == "2"
    assert "replica.lag.time.max.ms" not in properties
