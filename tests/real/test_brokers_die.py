"""Real brokers fail in four ways under load, and no acknowledged record is lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controllerd.audit.reader import AuditReader
from controllerd.dev.cluster import DevCluster, RealBroker, open_cluster
from controllerd.dev.load import ProducerLoad
from controllerd.dev.observe import audit_violations
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.waiting import Waiting
from controllerd.record.records import BrokersRecord, EventBegin
from tests.real.bounces import BOUNCE_S, bounce_asleep

TOPIC, PARTITIONS = "orders", 6
SESSION_S, ALLOWANCE_S = 6.0, 5.0
BOUNCING = 3
LAG_S = 6.0


class Faults:
    """The faults of the test, each injected when the ISRs are full again."""

    def __init__(self, cluster: DevCluster, load: ProducerLoad) -> None:
        self.cluster, self.load = cluster, load
        self.waiting = Waiting(cluster, print)

    async def one(
        self, name: str, fault: Callable[[], Awaitable[None]], *, within_s: float = SESSION_S + ALLOWANCE_S
    ) -> None:
        """Inject a fault, wait until the cluster is whole again, and compare the worst gap with the allowance."""
        since = time.monotonic()
        await fault()
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full again")
        await self.waiting.until(self.waiting.missing_agreement, "every broker shows what ZooKeeper has")
        await self.until_acknowledged_again()
        gap = self.load.result.worst_gap_s(since_s=since)
        took = time.monotonic() - since
        print(f"{name}: worst gap between acknowledgements {gap:.2f} s, whole again after {took:.1f} s")
        assert gap <= within_s, name

    async def until_acknowledged_again(self) -> None:
        before = self.load.acknowledged

        async def missing() -> str | None:
            return self.load.missing_after(before, records=250)

        await self.waiting.until(missing, "records are acknowledged again")

    async def kill_a_leader(self) -> None:
        leader = (await self.waiting.leadership(TOPIC, 0)).leader
        await self.cluster.brokers[leader].kill()
        await self.waiting.until(lambda: self.waiting.missing_leaders(leader), "its partitions have other leaders")
        await self.waiting.until(self.waiting.missing_agreement, "the live brokers agree")
        await self.cluster.brokers[leader].start()

    async def terminate_another(self) -> None:
        leader = (await self.waiting.leadership(TOPIC, 1)).leader
        assert await self.cluster.brokers[leader].terminate() == 0
        assert await self.waiting.led_by(leader) == 0
        await self.cluster.brokers[leader].start()

    async def pause_a_follower(self) -> None:
        state = await self.waiting.leadership(TOPIC, 2)
        follower = next(broker for broker in state.isr if broker != state.leader)
        real = self.cluster.brokers[follower]
        assert isinstance(real, RealBroker)
        real.pause()
        try:

            async def missing() -> str | None:
                isr = (await self.waiting.leadership(TOPIC, 2)).isr
                return f"isr {isr}" if follower in isr else None

            await self.waiting.until(missing, "the paused follower is out of the ISR")
            await asyncio.sleep(LAG_S)  # the fault itself is a pause well beyond the replica lag
        finally:
            real.resume()

    async def bounce_faster_than_an_event(self) -> None:
        """Restart the broker while the controller's process is paused: the controller sees another czxid only."""
        ends = {BOUNCING: self.cluster.brokers[BOUNCING].terminate}
        await bounce_asleep(self.cluster, await self.waiting.active(), ends)


@asynccontextmanager
async def loaded_cluster(directory: Path) -> AsyncIterator[Faults]:
    overrides = {BOUNCING: {"controlled.shutdown.enable": "false"}}
    async with open_cluster(
        "kafka", directory, print, instances=1, controller_session_ms=55_000, overrides=overrides
    ) as cluster:
        assignments = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
        await cluster.observer.create_topic(TOPIC, assignments, {"min.insync.replicas": "2"})
        load = ProducerLoad(cluster.bootstrap, TOPIC, PARTITIONS, records_per_s=250)
        faults = Faults(cluster, load)
        await faults.waiting.until(faults.waiting.missing_agreement, "every broker knows the topic")
        load.start()
        try:
            await faults.until_acknowledged_again()
            yield faults
        finally:
            await asyncio.to_thread(load.stop)


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(400)
async def test_brokers_fail_one_after_another_and_no_record_is_lost(tmp_path: Path) -> None:
    async with loaded_cluster(tmp_path) as faults:
        await faults.one("kill -9 of a leader's broker", faults.kill_a_leader)
        await faults.one("SIGTERM of another", faults.terminate_another)
        await faults.one("SIGSTOP of a follower", faults.pause_a_follower)
        await faults.one("bounce faster than an event", faults.bounce_faster_than_an_event, within_s=BOUNCE_S)

        result = await asyncio.to_thread(faults.load.stop)
        consumed = await asyncio.to_thread(consume_all, faults.cluster.bootstrap, TOPIC)
        checked = verify(result.acknowledged, consumed)
        print(f"{len(result.acknowledged)} acknowledged, {len(consumed)} consumed: {checked}")
        assert checked.ok
        assert not result.failures

        await faults.waiting.until(faults.waiting.missing_agreement, "every broker shows what ZooKeeper has")
        active, view = await faults.waiting.active(), await faults.cluster.view()
        await faults.waiting.until(
            lambda: faults.waiting.missing_audit(active, view), "the audit log folds to ZooKeeper"
        )
        log = active.audit_directory(await faults.cluster.observer.cluster_id())
        assert was_seen_as_bounce(log, BOUNCING)
        assert audit_violations(log) == []


def was_seen_as_bounce(audit_log: Path, broker: int) -> bool:
    """Whether one event found the broker both dead and new."""
    gone: set[int] = set()
    for _envelope, record in AuditReader(audit_log):
        if isinstance(record, EventBegin):
            gone = set()
        elif isinstance(record, BrokersRecord):
            if any(row.id == broker and broker in gone for row in record.live):
                return True
            gone.update(record.gone)
    return False
