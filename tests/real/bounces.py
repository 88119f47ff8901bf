"""Bounces that end before the controller reads the brokers: its events, and the requests to the new broker epochs."""

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
"""The longest that a partition may wait while its broker restarts and the process of the controller is paused."""


async def bounce_asleep(
    cluster: DevCluster, controller: ControllerProcess, brokers: Mapping[int, Callable[[], Awaitable[object]]]
) -> None:
    """Restart brokers while the controller's process is paused, so that it sees other czxids only.

    The controller resumes as soon as the brokers are registered. Until it sends them metadata, they answer clients
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
    """Return the ids of the brokers that failed and returned within one event, for each such event."""
    gone: dict[tuple[str, int], set[int]] = defaultdict(set)
    bounced: dict[tuple[str, int], set[int]] = defaultdict(set)
    for envelope, record in await scene.logged(BrokersRecord, since_s=since):
        event = envelope.boot, envelope.event
        bounced[event] |= gone[event] & {row.id for row in record.live}
        gone[event] |= set(record.gone)
    return [brokers for brokers in bounced.values() if brokers]


async def sent_to_epoch(scene: Scene, broker: int, epoch: int, since: float) -> Mapping[str, set[tuple[str, int]]]:
    """Return the partitions that were sent to a broker with this broker epoch, by API."""
    sent: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for _, record in await scene.logged(RequestRecord, since_s=since):
        if (broker, epoch) in zip(record.brokers, record.broker_epochs, strict=True):
            sent[record.api] |= set(zip(record.topics, record.partitions, strict=True))
    return sent


async def judge_new_life(scene: Scene, broker: int, since: float) -> None:
    """Check that the broker was sent, with its new epoch, its own replicas and the metadata of every partition."""
    view, epoch = await scene.cluster.view(), await scene.operator.czxid(f"/brokers/ids/{broker}")
    sent = await sent_to_epoch(scene, broker, epoch, since)
    hosted = {(t.topic, t.partition) for t, a in view.assignments.items() if broker in a.replicas}
    assert sent["LeaderAndIsr"] >= hosted
    assert sent["UpdateMetadata"] >= {(t.topic, t.partition) for t in view.assignments}


async def until_known(scene: Scene) -> None:
    """Wait until the controller has the epochs of all live brokers."""

    async def known() -> bool:
        seen, real = await epochs(scene)
        return seen == real

    await scene.until_seen(known, "the controller knows their new epochs")


async def epochs(scene: Scene) -> tuple[dict[int, int], dict[int, int]]:
    """Return the epochs of the live brokers: as the controller has them, and as ZooKeeper has them."""
    status = await (await scene.waiting.active()).status() or {"brokers": []}
    there = sorted((await scene.cluster.view()).brokers)
    known = {row["id"]: row["broker_epoch"] for row in status["brokers"]}
    return known, {number: await scene.operator.czxid(f"/brokers/ids/{number}") for number in there}
