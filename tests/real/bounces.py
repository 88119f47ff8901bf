"""Bounces that are faster than the controller's look: what it noticed, and what the new lives were told."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from controllerd.dev.cluster import DevCluster, RealBroker
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.waiting import Waiting
from controllerd.record.records import BrokersRecord, RequestRecord
from tests.real.scene import Scene

BOUNCE_S: Final = 40.0
"""The longest that a partition may wait while its broker ends and starts and the controller is stopped."""


async def bounce_asleep(
    cluster: DevCluster, controller: ControllerProcess, brokers: Mapping[int, Callable[[], Awaitable[object]]]
) -> None:
    """Brokers end, each by its own call, and start while the controller's process does not run: it sees other czxids.

    The controller runs again as soon as they are registered. Until it tells them of the cluster, they answer clients
    with an empty list of brokers, and librdkafka from 2.10 on then forgets all brokers for good (its issue 5301).
    """
    controller.process.pause()
    try:
        await asyncio.gather(*(end() for end in brokers.values()))
        for number in brokers:
            _real(cluster, number).launch()
        await _until_registered(cluster, set(brokers))
    finally:
        controller.process.resume()
    await asyncio.gather(*(_real(cluster, number).wait_answering() for number in brokers))


async def _until_registered(cluster: DevCluster, brokers: set[int]) -> None:
    async def missing() -> str | None:
        left = brokers - (await cluster.view()).brokers
        return f"{sorted(left)} are not" if left else None

    await Waiting(cluster, print).until(missing, "the brokers are registered")


def _real(cluster: DevCluster, number: int) -> RealBroker:
    broker = cluster.brokers[number]
    assert isinstance(broker, RealBroker)
    return broker


async def bounces_by_event(scene: Scene, since: float) -> list[set[int]]:
    """Return, for each event in which brokers both died and came back, the ids of these brokers."""
    gone: dict[tuple[str, int], set[int]] = defaultdict(set)
    bounced: dict[tuple[str, int], set[int]] = defaultdict(set)
    for envelope, record in await scene.logged(BrokersRecord, since_s=since):
        event = envelope.boot, envelope.event
        bounced[event] |= gone[event] & {row.id for row in record.live}
        gone[event] |= set(record.gone)
    return [brokers for brokers in bounced.values() if brokers]


async def told_anew(scene: Scene, broker: int, epoch: int, since: float) -> Mapping[str, set[tuple[str, int]]]:
    """Return the partitions that were sent to a broker under this epoch, by API."""
    told: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for _, record in await scene.logged(RequestRecord, since_s=since):
        if (broker, epoch) in zip(record.brokers, record.broker_epochs, strict=True):
            told[record.api] |= set(zip(record.topics, record.partitions, strict=True))
    return told


async def judge_new_life(scene: Scene, broker: int, since: float) -> None:
    """The broker was told, under its new epoch, of all replicas that it hosts, and of every partition."""
    view, epoch = await scene.cluster.view(), await scene.operator.czxid(f"/brokers/ids/{broker}")
    told = await told_anew(scene, broker, epoch, since)
    hosted = {(t.topic, t.partition) for t, a in view.assignments.items() if broker in a.replicas}
    assert told["LeaderAndIsr"] >= hosted
    assert told["UpdateMetadata"] >= {(t.topic, t.partition) for t in view.assignments}


async def until_known(scene: Scene) -> None:
    """Wait until the controller has the epochs of all live brokers."""

    async def known() -> bool:
        seen, real = await epochs(scene)
        return seen == real

    await scene.until_seen(known, "the controller knows their new lives")


async def epochs(scene: Scene) -> tuple[dict[int, int], dict[int, int]]:
    """Return the epochs of the live brokers: as the controller has them, and as ZooKeeper has them."""
    status = await (await scene.waiting.active()).status() or {"brokers": []}
    there = sorted((await scene.cluster.view()).brokers)
    known = {row["id"]: row["broker_epoch"] for row in status["brokers"]}
    return known, {number: await scene.operator.czxid(f"/brokers/ids/{number}") for number in there}
