"""A throttled reassignment and a drained broker, on stock brokers.

The controller runs in the test's own process, so that the test can put events into its queue.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from controllerd.config.load import load_config
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.daemon.node import ControllerNode, open_node
from controllerd.dev.cluster import DevCluster, open_cluster
from controllerd.identity import claim_data_dir
from events.cluster import Takeover
from events.operator import DrainBroker, ThrottleReassignments, ThrottleReply
from events.reassignments import ApiPartitionReassignment
from tests.fakes.requester import ALICE
from tests.real.operator import Operator
from tests.real.scene import SMALL_FETCHES
from tests.zk.world import until

pytestmark = [pytest.mark.kafka, pytest.mark.real, pytest.mark.timeout(240)]

SLOW: Final = 20_000
FAST: Final = 50_000_000
BYTES: Final = 3_000_000
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
OURS: Final = {"min.insync.replicas": "1"}
"""Configurations of the topics that the controller must keep."""
T, D = TopicPartition("t", 0), TopicPartition("d", 0)


@asynccontextmanager
async def leading(cluster: DevCluster, directory: Path) -> AsyncIterator[ControllerNode]:
    """A controller in this process that has taken the role from a broker."""
    given: dict[str, object] = {
        "zookeeper.connect": cluster.connect,
        "node.id": 2_000_000_000,
        "node.data_dir": str(directory),
        "kafka.listeners": ["PLAINTEXT://127.0.0.1:0"],
        "http.listen": "127.0.0.1:0",
        "kafka.auto_leader_rebalance_enable": False,  # preferred leaders are elected on request alone
    }
    with claim_data_dir(directory) as identity:
        async with open_node(load_config(None, {}, given), identity) as node:
            await node.instance.queue.call(Takeover("a test"))
            await until(lambda: node.snapshot.is_active)
            yield node


@asynccontextmanager
async def operating(cluster: DevCluster) -> AsyncIterator[Operator]:
    operator = Operator(cluster)
    await operator.open()
    try:
        yield operator
    finally:
        await operator.close()


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.num.messages": 1, "log_level": 2})
    for _ in range(BYTES // 60_000):
        producer.produce("t", bytes(60_000), partition=0)
    assert producer.flush(60.0) == 0


async def configs(operator: Operator) -> list[Mapping[str, str]]:
    """The configurations of the three brokers and the topic."""
    paths = [f"/config/{entity}" for entity in ("brokers/1", "brokers/2", "brokers/3", "topics/t")]
    return [(await operator.read(path))["config"] if await operator.exists(path) else {} for path in paths]


async def throttled_move(node: ControllerNode, operator: Operator) -> None:
    """Throttle a reassignment until it cannot catch up, then raise the rate; no throttle is left at the end."""
    call, target = node.instance.queue.call, (BrokerId(1), BrokerId(3))
    reply = await call(ThrottleReassignments(SLOW, {T: target}, "ann"))
    assert reply == ThrottleReply((BrokerId(1), BrokerId(2), BrokerId(3)), ("t",))
    lists = dict(zip(LISTS, ("0:1,0:2", "0:3"), strict=True))
    assert await configs(operator) == [*[dict.fromkeys(RATES, str(SLOW))] * 3, OURS | lists]

    assert await call(ApiPartitionReassignment(ALICE, {T: target})) == {T: KafkaError.NONE}
    await until(lambda: (size := node.sizes.view().size(T, BrokerId(3))) is not None and size.bytes_per_s is not None)
    left = node.sizes.view().bytes_left(T, BrokerId(1), BrokerId(3))
    assert left is not None
    assert left > BYTES / 2
    assert node.snapshot.progress.reassignment(T) is not None

    await call(ThrottleReassignments(FAST, {T: target}, "ann"))
    await until(lambda: node.snapshot.progress.reassignment(T) is None)
    await until(lambda: node.snapshot.throttle is None)
    assert await configs(operator) == [{}, {}, {}, OURS]
    assert not await operator.exists("/controllerd/throttle")


async def drained(node: ControllerNode) -> None:
    """Drain broker 1: other brokers lead its partitions, and it stays in sync."""
    reply = await node.instance.queue.call(DrainBroker(BrokerId(1), leaders_only=True, reason="a test", by="ann"))

    assert set(reply.moved) == {T, D}
    await until(lambda: "drain-1" in node.snapshot.pauses)  # the answer comes before the snapshot has it
    view = node.snapshot.partition(D)
    assert view is not None
    assert view.leadership is not None
    assert (view.leadership.leader, set(view.leadership.isr)) == (2, {1, 2, 3})
    assert list(node.snapshot.pauses) == ["drain-1"]


async def test_a_throttle_is_set_applied_and_removed_and_a_broker_is_drained(tmp_path: Path) -> None:
    overrides = dict.fromkeys((1, 2, 3), SMALL_FETCHES)
    async with (
        open_cluster("kafka", tmp_path, print, instances=0, overrides=overrides) as cluster,
        leading(cluster, tmp_path / "controllerd") as node,
        operating(cluster) as operator,
    ):
        for topic, replicas in (("t", [1, 2]), ("d", [1, 2, 3])):
            await cluster.observer.create_topic(topic, {0: replicas}, OURS)
        await until(lambda: all((at := node.snapshot.partition(tp)) and at.leadership for tp in (T, D)))
        await asyncio.to_thread(produce, cluster.bootstrap)
        await throttled_move(node, operator)
        await drained(node)
