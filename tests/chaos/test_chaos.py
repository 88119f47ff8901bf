"""Long random runs on the embedded cluster: whatever dies, the cluster heals, and the audit log tells the truth.

``CONTROLLERD_CHAOS_SECONDS`` (default 300) and ``CONTROLLERD_CHAOS_SEED`` choose how long and which faults; the seed is
printed, so that a failing run can be tried again.
"""

import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controllerd.dev.cluster import DevCluster, open_cluster
from controllerd.dev.observe import audit_violations
from controllerd.dev.waiting import Waiting

Fault = Callable[[], Awaitable[None]]


class Chaos:
    """Faults by seed."""

    def __init__(self, cluster: DevCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.waiting = Waiting(cluster, print)
        self.topics = 0

    def faults(self) -> dict[str, Fault]:
        return {
            "kill a broker": self.kill_broker,
            "shut a broker down": self.shut_down_broker,
            "kill the controller": self.kill_controller,
            "stop the controller": self.stop_controller,
            "create a topic": self.create_topic,
            "restart ZooKeeper": self.restart_zookeeper,
        }

    async def round(self) -> str:
        """One random fault, and back to health."""
        name, fault = self.random.choice(list(self.faults().items()))
        await fault()
        await self.waiting.until(self.waiting.missing_controller, f"an instance leads after: {name}")
        await self.waiting.until(self.waiting.missing_isr, f"the ISRs are full after: {name}")
        await self.waiting.until(self.waiting.missing_agreement, f"every broker agrees after: {name}")
        return name

    async def kill_broker(self) -> None:
        broker = self.random.choice(list(self.cluster.brokers.values()))
        await broker.kill()
        if self.random.random() < 0.5:
            await self.waiting.until(self.waiting.missing_agreement, "the live brokers agree")
        await broker.start()

    async def shut_down_broker(self) -> None:
        broker = self.random.choice(list(self.cluster.brokers.values()))
        await broker.terminate()
        await broker.start()

    async def kill_controller(self) -> None:
        controller = await self.waiting.active()
        await controller.process.kill()
        await controller.start()

    async def stop_controller(self) -> None:
        controller = await self.waiting.active()
        assert await controller.process.terminate() == 0
        await controller.start()

    async def create_topic(self) -> None:
        self.topics += 1
        replicas = self.random.sample(list(self.cluster.brokers), 3)
        partitions = {p: replicas[p % 3 :] + replicas[: p % 3] for p in range(self.random.randint(1, 9))}
        await self.cluster.observer.create_topic(f"topic-{self.topics}", partitions)

    async def restart_zookeeper(self) -> None:
        await self.cluster.zookeeper.restart()


@pytest.mark.chaos
@pytest.mark.zookeeper
@pytest.mark.timeout(0)
async def test_a_cluster_heals_from_whatever_happens(tmp_path: Path) -> None:
    seed = int(os.environ.get("CONTROLLERD_CHAOS_SEED", str(random.SystemRandom().randrange(10**6))))
    seconds = float(os.environ.get("CONTROLLERD_CHAOS_SECONDS", "300"))
    print(f"seed {seed}, {seconds:.0f} s")
    async with open_cluster("embedded", tmp_path, print) as cluster:
        chaos = Chaos(cluster, seed)
        await chaos.create_topic()
        deadline, rounds = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            started = time.monotonic()
            name = await chaos.round()
            rounds += 1
            print(f"round {rounds}: {name}, whole after {time.monotonic() - started:.1f} s")
        active, view = await chaos.waiting.active(), await cluster.view()
        await chaos.waiting.until(lambda: chaos.waiting.missing_audit(active, view), "the audit log folds to ZooKeeper")
        cluster_id = await cluster.observer.cluster_id()
        broken = {c.node_id: audit_violations(c.audit_directory(cluster_id)) for c in cluster.controllers}
        assert not any(broken.values()), broken
