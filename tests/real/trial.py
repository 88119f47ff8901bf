"""A cluster under load for a sequence of faults, and the checks after each of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from controllerd.audit.reader import AuditReader
from controllerd.dev.cluster import DevCluster
from controllerd.dev.load import ProducerLoad
from controllerd.dev.observe import audit_violations, merged_differences
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.waiting import Waiting
from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.records import TermRecord

TOPIC, PARTITIONS = "orders", 6
RECORDS_PER_S = 250


class Change(NamedTuple):
    """A change of the role; ``at_s`` by the monotonic clock, which all processes of a machine share."""

    at_s: float
    node: int
    record: TermRecord


class Trial:
    """One cluster and one load for a sequence of faults."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.waiting = Waiting(cluster, print)
        self.load = ProducerLoad(cluster.bootstrap, TOPIC, PARTITIONS, records_per_s=RECORDS_PER_S)

    async def begin(self) -> None:
        """Create the topic and start the load."""
        assignments = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
        await self.cluster.observer.create_topic(TOPIC, assignments, {"min.insync.replicas": "2"})
        await self.waiting.until(self.waiting.missing_agreement, "every broker knows the topic")
        self.load.start()
        await self.until_acknowledged_again()

    async def one(self, name: str, fault: Callable[[], Awaitable[None]], *, within_s: float) -> None:
        """Inject a fault, wait until the cluster is whole again, and check everything that must hold.

        ``within_s`` is the longest time without an acknowledgement.
        """
        since, epoch = time.monotonic(), await self.epoch()
        await fault()
        await self.until_whole()
        gap, took = self.load.result.worst_gap_s(since_s=since), time.monotonic() - since
        led = ", then ".join(await self.who_led(epoch)) or "no other"
        print(f"{name}: worst gap {gap:.2f} s of {within_s:.0f} s, whole after {took:.1f} s, led since: {led}")
        assert gap <= within_s, f"{name}: {gap:.2f} s without an acknowledgement"
        await self.judge(name)

    async def until_whole(self) -> None:
        """Wait until the ISRs are full, all brokers agree with ZooKeeper, and records are acknowledged."""
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
        await self.waiting.until(self.waiting.missing_agreement, "every broker shows what ZooKeeper has")
        await self.until_acknowledged_again()

    async def until_acknowledged_again(self) -> None:
        """Wait for a second's worth of acknowledgements, some of every partition."""
        before = self.load.acknowledged

        async def missing() -> str | None:
            return self.load.missing_after(before, records=RECORDS_PER_S)

        await self.waiting.until(missing, "records are acknowledged again")

    async def judge(self, name: str) -> None:
        """Check that no record is lost, duplicated or out of order, and that the logs of all instances are sound."""
        await self.judge_records(name)
        await self.waiting.until(self.missing_audit, "the logs of all instances fold to ZooKeeper")
        assert await asyncio.to_thread(audit_violations, *await self.audit_logs()) == [], name

    async def judge_records(self, name: str) -> None:
        """Check that no record acknowledged so far is lost, duplicated or out of order."""
        acknowledged = self.load.result.acknowledged[:]
        consumed = await asyncio.to_thread(consume_all, self.cluster.bootstrap, TOPIC)
        checked = verify(acknowledged, consumed)
        print(f"  {checked}")
        assert checked.ok, name
        assert not self.load.result.failures, name
        assert self.load.result.fatal_error is None, name

    async def missing_audit(self) -> str | None:
        """The first difference between the folded logs of all instances and ZooKeeper."""
        logs, view = await self.audit_logs(), await self.cluster.view()
        return next(iter(await asyncio.to_thread(merged_differences, logs, view)), None)

    async def audit_logs(self) -> list[Path]:
        cluster_id = await self.cluster.observer.cluster_id()
        logs = [controller.audit_directory(cluster_id) for controller in self.cluster.controllers]
        return [log for log in logs if log.is_dir()]

    async def epoch(self) -> int:
        """The controller epoch as ZooKeeper has it."""
        return await self.cluster.observer.controller_epoch()

    async def terms(self) -> list[Change]:
        """Every change of the role that an instance recorded, in the order of time."""
        return sorted(await asyncio.to_thread(changes_of, await self.audit_logs()), key=lambda change: change.at_s)

    async def who_led(self, since_epoch: int) -> list[str]:
        """The winner of each epoch after this one, and the former holder; a broker won an epoch in no audit log."""
        won = {
            change.record.controller_epoch: f"controllerd {change.node} (from {change.record.holder})"
            for change in await self.terms()
            if change.record.change in TERM_BEGINS
        }
        now = await self.epoch()
        return [f"{number}: {won.get(number, 'a broker')}" for number in range(since_epoch + 1, now + 1)]


def changes_of(logs: Sequence[Path]) -> list[Change]:
    """The changes of the role in these audit logs."""
    entries = (entry for log in logs for entry in AuditReader(log))
    return [Change(e.mono_ns / 1e9, e.node, record) for e, record in entries if isinstance(record, TermRecord)]
