"""The metrics of controllerd agree with those of the built-in controller about the same cluster, name by name."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controllerd.dev.cluster import BROKER_IDS, DevCluster, RealBroker
from controllerd.dev.waiting import Waiting
from tests.real.handover import brokers_first, missing_broker_in_the_lead
from tests.real.mbeans import JCMD, jmx_url, read_mbeans
from tests.real.operator import Operator, tp

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(JCMD is None, reason="jcmd of a JDK is needed to read a broker's MBeans"),
]

CONTROLLER: Final = "kafka_controller_kafkacontroller_"
NO_REBALANCE: Final = {"auto.leader.rebalance.enable": "false"}
ALONE: Final = {"min.insync.replicas": "1"}


class MetricsScene:
    """Three brokers under the controller of one of them; another one is going to be killed."""

    def __init__(self, cluster: DevCluster, operator: Operator, directory: Path) -> None:
        self.cluster, self.operator, self.directory = cluster, operator, directory
        self.waiting = Waiting(cluster, print)
        (self.controller,) = cluster.controllers
        self.holder = self.victim = 0
        self._url = ""

    async def begin(self) -> None:
        """Find the controller, and choose the broker to kill."""
        await self.waiting.until(lambda: missing_broker_in_the_lead(self.cluster), "a broker leads")
        self.holder = next(iter((await self.cluster.metadata()).values())).controller_id
        self.victim = next(broker for broker in BROKER_IDS if broker != self.holder)
        leader = self.cluster.brokers[self.holder]
        assert isinstance(leader, RealBroker)
        self._url = await jmx_url(leader)

    async def create(self, topic: str, *partitions: list[int]) -> None:
        """A topic that every broker knows."""
        await self.cluster.observer.create_topic(topic, dict(enumerate(partitions)), ALONE)
        await self.waiting.until(lambda: missing_broker_in_the_lead(self.cluster), f"every broker knows {topic}")

    async def lose_the_victim(self, offline: str) -> None:
        """Kill the victim, and wait until this topic, whose only replica it had, has no leader."""
        await self.cluster.brokers[self.victim].kill()

        async def missing() -> str | None:
            state = (await self.cluster.view()).leaderships[tp(offline)]
            return None if state.leader == -1 else f"it is led by {state.leader}"

        await self.waiting.until(missing, f"{offline} is offline")

    async def peer(self) -> Mapping[str, float]:
        """The MBeans of the built-in controller."""
        return await read_mbeans(self._url, self.directory)

    async def ours(self) -> Mapping[str, float]:
        """The values of ``/metrics``; of a metric with labels, any series."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Mapping[str, float]:
        with urllib.request.urlopen(f"http://{self.controller.http}/metrics", timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples}

    async def until_peer_shows(self, name: str, value: float) -> Mapping[str, float]:
        """The MBeans of the peer, once this gauge has this value."""

        async def missing() -> str | None:
            found = (await self.peer())[CONTROLLER + name]
            return None if found == value else f"it is {found}"

        await self.waiting.until(missing, f"{name} of the built-in controller is {value:g}")
        return await self.peer()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[MetricsScene]:
    settings = {"CONTROLLERD__KAFKA__AUTO_LEADER_REBALANCE_ENABLE": "false"}
    async with brokers_first(tmp_path, overrides=NO_REBALANCE, settings=settings) as cluster:
        operator = Operator(cluster)
        await operator.open()
        try:
            scene = MetricsScene(cluster, operator, tmp_path)
            await scene.begin()
            yield scene
        finally:
            await operator.close()


def gauges(found: Mapping[str, float]) -> dict[str, float]:
    """The gauges of ``KafkaController`` about the cluster, without the state of the controller itself."""
    names = {name for name in found if name.startswith(CONTROLLER)} - {f"{CONTROLLER}controllerstate"}
    return {name.removeprefix(CONTROLLER): found[name] for name in sorted(names)}


async def test_controllerd_has_the_same_metrics_as_the_built_in_controller(scene: MetricsScene) -> None:
    lost, kept = scene.victim, [broker for broker in BROKER_IDS if broker != scene.victim]
    await scene.create("whole", kept, kept[::-1], kept)
    await scene.create("lonely", [lost], [lost])
    await scene.create("not-preferred", [lost, *kept], [*kept, lost])
    await scene.create("doomed", [lost, *kept], kept)
    await scene.lose_the_victim("lonely")
    await scene.operator.delete_topic("doomed")
    expected = await scene.until_peer_shows("topicsineligibletodeletecount", 1)

    await scene.controller.start()
    assert await scene.controller.is_active()

    async def missing() -> str | None:
        ours = gauges(await scene.ours())
        wrong = {name: (value, ours.get(name)) for name, value in gauges(expected).items() if ours.get(name) != value}
        return f"(peer, ours): {wrong}" if wrong else None

    await scene.waiting.until(missing, "the gauges are those of the built-in controller", timeout_s=30)
    print(gauges(expected))
    assert gauges(expected)["offlinepartitionscount"] == 2
    assert gauges(expected)["preferredreplicaimbalancecount"] == 3  # the two without a leader among them
    assert gauges(expected)["replicastodeletecount"] >= 1
    assert expected.keys() - (await scene.ours()).keys() == set()  # every MBean of the peer has its metric
    now_passive = await scene.until_peer_shows("activecontrollercount", 0)
    assert {name for name, value in gauges(now_passive).items() if value} == {"zkmigrationstate"}
