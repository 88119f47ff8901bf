"""The role moves from a broker to controllerd and back under load, and no acknowledged record is lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controllerd.audit.reader import AuditReader
from controllerd.dev.cluster import DevCluster
from controllerd.dev.load import ProducerLoad
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.waiting import Waiting
from controllerd.record.records import ZkWriteRecord
from tests.real.handover import WORST_GAP_S, brokers_first, missing_broker_in_the_lead, role_changes

TOPIC, PARTITIONS = "orders", 6
RESIGNATION_S = 2.0
TAKEOVER = ["setData", "delete", "create"], ["/controller_epoch", "/controller", "/controller"]


class RoleChanges:
    """Changes of the role under load, each checked when the cluster is whole again."""

    def __init__(self, cluster: DevCluster, load: ProducerLoad) -> None:
        self.cluster, self.load = cluster, load
        self.waiting = Waiting(cluster, print)
        self.controller = cluster.controllers[0]

    async def step(self, name: str, change: Callable[[], Awaitable[None]]) -> None:
        """Change the role, and compare the worst gap between acknowledgements with the allowance."""
        since = time.monotonic()
        await change()
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
        await self.until_acknowledged_again()
        gap = self.load.result.worst_gap_s(since_s=since)
        print(f"{name}: worst gap between acknowledgements {gap:.2f} s, whole after {time.monotonic() - since:.1f} s")
        assert gap <= WORST_GAP_S, name

    async def until_acknowledged_again(self) -> None:
        before = self.load.acknowledged

        async def missing() -> str | None:
            return self.load.missing_after(before, records=250)

        await self.waiting.until(missing, "records are acknowledged again")

    async def controllerd_takes_over(self) -> None:
        """Start controllerd, which takes the role from the broker that holds it."""
        epoch = await self.epoch()
        await self.controller.start()
        assert await self.controller.is_active()
        await self.waiting.until(self.waiting.missing_agreement, "every broker follows controllerd")
        await self.waiting.until(self.missing_audit, "the audit log folds to ZooKeeper")
        assert await self.epoch() == epoch + 1

    async def controllerd_resigns(self) -> None:
        """Stop controllerd by SIGTERM: it resigns, and a broker takes the role."""
        epoch, since = await self.epoch(), time.monotonic()
        assert await self.controller.process.terminate() == 0
        took = time.monotonic() - since
        print(f"SIGTERM: controllerd ended after {took:.2f} s")
        await self.waiting.until(self.missing_broker_in_the_lead, "every broker follows one of them")
        assert await self.epoch() == epoch + 1
        assert took <= RESIGNATION_S

    async def missing_broker_in_the_lead(self) -> str | None:
        return await missing_broker_in_the_lead(self.cluster)

    async def missing_audit(self) -> str | None:
        return await self.waiting.missing_audit(self.controller, await self.cluster.view())

    async def epoch(self) -> int:
        """The controller epoch as ZooKeeper has it."""
        return await self.cluster.observer.controller_epoch()

    async def audit_log(self) -> Path:
        return self.controller.audit_directory(await self.cluster.observer.cluster_id())


@asynccontextmanager
async def under_load(cluster: DevCluster) -> AsyncIterator[RoleChanges]:
    """A topic that the brokers' own controller started, and a producer that writes to it throughout."""
    load = ProducerLoad(cluster.bootstrap, TOPIC, PARTITIONS, records_per_s=250)
    changes = RoleChanges(cluster, load)
    assignments = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
    await cluster.observer.create_topic(TOPIC, assignments, {"min.insync.replicas": "2"})
    await changes.waiting.until(changes.missing_broker_in_the_lead, "the brokers lead themselves")
    load.start()
    try:
        await changes.until_acknowledged_again()
        yield changes
    finally:
        await asyncio.to_thread(load.stop)


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(240)
async def test_the_role_changes_hands_under_load_and_no_record_is_lost(tmp_path: Path) -> None:
    async with brokers_first(tmp_path) as cluster, under_load(cluster) as changes:
        await changes.step("controllerd takes over from a broker", changes.controllerd_takes_over)
        await changes.step("controllerd resigns on SIGTERM", changes.controllerd_resigns)
        await changes.step("controllerd takes over again", changes.controllerd_takes_over)

        result = await asyncio.to_thread(changes.load.stop)
        consumed = await asyncio.to_thread(consume_all, cluster.bootstrap, TOPIC)
        checked = verify(result.acknowledged, consumed)
        print(f"{len(result.acknowledged)} acknowledged, {len(consumed)} consumed: {checked}")
        assert checked.ok
        assert not result.failures

        await changes.waiting.until(changes.waiting.missing_agreement, "every broker shows what ZooKeeper has")
        await changes.waiting.until(changes.missing_audit, "the audit log folds to ZooKeeper")
        log = await changes.audit_log()
        assert role_changes(log) == [("elected", 2), ("resigned", 2), ("elected", 4)]
        assert elections(log) == [TAKEOVER, TAKEOVER]


def elections(log: Path) -> list[tuple[list[str], list[str]]]:
    """The transactions that raised the epoch: their operations and paths."""
    writes = (record for _, record in AuditReader(log) if isinstance(record, ZkWriteRecord))
    return [(w.operations, w.paths) for w in writes if "/controller_epoch" in w.paths and set(w.results) == {"ok"}]
