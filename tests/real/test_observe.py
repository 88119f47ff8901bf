"""controllerd observes Kafka's own controller while brokers fail, writes nothing, and would have elected the same.

The real elections come from ZooKeeper, and the authors of writes from its transaction log, not from the observer.
"""

import asyncio
import json
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from controllerd.audit.reader import AuditReader
from controllerd.core.model import TopicPartition
from controllerd.dev.cluster import BROKER_IDS, CHROOT, FIRST_NODE_ID, DevCluster, RealBroker
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.load import ProducerLoad
from controllerd.dev.observe import ZooKeeperObserver
from controllerd.dev.txnlog import LoggedTransaction, TransactionLog
from controllerd.dev.waiting import Waiting
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.observer.causes import CauseKind, UnexplainedKind
from controllerd.observer.report import CANNOT_BE_SEEN
from controllerd.record.families.operators import ObservationRecord
from controllerd.zk import paths
from tests.cli.running import controllerctl
from tests.real.comparison.asking import ELECT, answer_of
from tests.real.history import ended, registrations, states, terms, writers
from tests.real.operator import tp

TOPIC, PARTITIONS = "orders", 6
SESSION_MS: Final = 6_000
OBSERVE: Final = {"CONTROLLERD__CONTROLLER__MODE": "observe"}
BROKERS: Final = {
    # Leaders move when a broker fails, and not by the rebalance.
    "auto.leader.rebalance.enable": "false",
    # A paused broker is removed from ISRs long before its session expires.
    "zookeeper.session.timeout.ms": "12000",
    "replica.lag.time.max.ms": "3000",
}

pytestmark = [pytest.mark.kafka, pytest.mark.real, pytest.mark.timeout(400)]


class Leadership(NamedTuple):
    """The leader, leader epoch and ISR of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


class ObservedPartition(NamedTuple):
    """One partition of an audit record of the observer."""

    cause: str
    epoch: int
    tp: TopicPartition
    before: Leadership
    would: Leadership
    after: Leadership
    verdict: str


class ObservedCluster:
    """Three brokers under the controller of one of them, and an observer instance."""

    def __init__(self, cluster: DevCluster, zookeeper: EmbeddedZooKeeper) -> None:
        self.cluster = cluster
        (self.observer,) = cluster.controllers
        self.waiting = Waiting(cluster, print)
        self._log = TransactionLog(zookeeper.data_directory)
        self._logged: list[LoggedTransaction] = []
        self.sessions: set[int] = set()
        """The sessions of the observer."""

    # -- the observer ------------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """The status of the observer."""
        status = await self.observer.status()
        assert status is not None
        assert status["role"] == "observer"
        self.sessions.add(int(status["zookeeper"]["session_id"], 16))
        return status

    async def holder(self) -> int:
        """The broker whose controller leads."""
        holder = (await self.status())["holder"]
        assert holder["kind"] == "broker"
        return int(holder["node_id"])

    async def follower_that_leads_most(self) -> int:
        """The broker that leads most partitions among the brokers that are not the controller."""
        states, holder = (await self.cluster.view()).leaderships.values(), await self.holder()
        return max(BROKER_IDS, key=lambda broker: -1 if broker == holder else sum(s.leader == broker for s in states))

    async def observations(self) -> dict[str, Any]:
        """The answer of ``/v1/observations``."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.observer.http}/v1/observations", timeout=10) as answer:
            observations: dict[str, Any] = json.load(answer)["observations"]
        return observations

    async def seen(self) -> list[ObservedPartition]:
        """Every partition that the observer recorded, in that order."""
        directory = self.observer.audit_directory(await self.cluster.observer.cluster_id())
        return await asyncio.to_thread(_seen, directory)

    # -- faults and requests -----------------------------------------------------------------------------------------

    async def replicas_catch_up(self) -> None:
        """Produce records, so that every follower has fetched: a record is acknowledged when all ISR members have it.

        The ISR of a new partition is full before any follower has fetched, and a leader treats a follower that never
        fetched as lagging, even with an empty log. A follower with all records stays in sync though it is dead.
        """
        load = ProducerLoad(self.cluster.bootstrap, TOPIC, PARTITIONS, records_per_s=50, max_records=PARTITIONS)
        load.start()

        async def missing() -> str | None:
            return None if load.acknowledged == PARTITIONS else f"{load.acknowledged} records are acknowledged"

        await self.waiting.until(missing, "each partition has a record")
        assert (await asyncio.to_thread(load.stop)).failures == []

    async def stop_broker(self, broker: int, *, is_controlled: bool = False) -> list[ObservedPartition]:
        """Stop a broker by SIGKILL or by SIGTERM, return the records about its end, and start it again."""
        await self._all_is_judged()
        before, session_id = len(await self.seen()), self._session_of(broker)
        end = self.cluster.brokers[broker].terminate if is_controlled else self.cluster.brokers[broker].kill
        await end()

        async def missing() -> str | None:
            await self.status()
            judged = [row for row in (await self.seen())[before:] if row.cause == CauseKind.BROKER_FAILED.value]
            return None if len(judged) >= PARTITIONS else f"{len(judged)} of {PARTITIONS} partitions are judged"

        await self.waiting.until(missing, f"the end of broker {broker} is judged")
        found = (await self.seen())[before:]
        print(f"broker {broker}: {dict(Counter((row.cause, row.verdict) for row in found))}")
        judged = {row.tp: row for row in found if row.cause == CauseKind.BROKER_FAILED.value}
        await self._compare_states(judged)
        if not is_controlled:  # else leaders moved before its session ended, maybe between two observations
            await self._compare_writes(judged, session_id)
        await self.cluster.brokers[broker].start()
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
        return found

    async def _compare_states(self, judged: Mapping[TopicPartition, ObservedPartition]) -> None:
        """Check that controllerd would have left each partition as Kafka's controller has left it."""
        view = await self.cluster.view()
        real = {one: Leadership(state.leader, state.leader_epoch, state.isr) for one, state in view.leaderships.items()}
        assert {one: row.would for one, row in judged.items()} == real
        print(f"  {len(real)} partitions are as controllerd would have left them")

    async def _compare_writes(self, judged: Mapping[TopicPartition, ObservedPartition], session_id: int) -> None:
        """Check that controllerd would have written the states that Kafka's controller wrote, in the same term."""
        since = ended(self._read_log(), session_id)
        written = [each for each in states(self._logged) if each.zxid > since]
        assert {one for one, row in judged.items() if row.would != row.before} == {each.tp for each in written}
        assert {row.epoch for row in judged.values()} == {each.state.controller_epoch for each in written}
        assert all(each.is_of_its_term for each in written)
        print(f"  {len(written)} writes after the end of its session, in epoch {terms(self._logged)[-1].epoch}")

    async def elect_preferred_leaders(self) -> None:
        """Request preferred leaders: the observer sees that leaders moved, but not the reason."""
        await self._all_is_judged()
        before, view = len(await self.seen()), await self.cluster.view()
        preferred = {one: assignment.replicas[0] for one, assignment in view.assignments.items()}
        away = {one for one, leader in preferred.items() if view.leaderships[one].leader != leader}
        assert away
        holder = self.cluster.brokers[await self.holder()]
        answer = await answer_of(holder.port, ELECT, 2, {"election_type": 0, "topic_partitions": None})
        assert answer.error_code is ErrorCode.none

        async def missing() -> str | None:
            moved = {
                row.tp: row for row in (await self.seen())[before:] if row.cause == UnexplainedKind.LEADER_MOVED.value
            }
            return None if moved.keys() == away else f"{sorted(moved)} are seen to have moved, not {sorted(away)}"

        await self.waiting.until(missing, "moved leaders are seen")
        moved = (await self.seen())[before:]
        assert {row.tp: row.after.leader for row in moved} == {one: preferred[one] for one in away}
        assert {row.verdict for row in moved} == {"not judged"}
        print(f"preferred leaders asked for: {len(moved)} leaders moved, none of them judged")

    async def pause_follower(self, broker: int) -> None:
        """Pause a follower until leaders have removed it from their ISRs, and resume it within its session.

        This needs load: a follower that lacks no record stays in sync for any time.
        """
        real = self.cluster.brokers[broker]
        assert isinstance(real, RealBroker)
        view = await self.cluster.view()
        followed = [one for one, state in view.leaderships.items() if state.leader != broker]

        async def missing() -> str | None:
            isrs = [(await self.cluster.view()).leaderships[one].isr for one in followed]
            in_sync = sum(broker in isr for isr in isrs)
            return f"it is in {in_sync} ISRs" if in_sync else None

        await self._all_is_judged()
        load = ProducerLoad(self.cluster.bootstrap, TOPIC, PARTITIONS, records_per_s=50)
        load.start()
        try:
            await self.waiting.until(lambda: self._missing_records(load), "the load runs")
            real.pause()
            await self.waiting.until(missing, f"broker {broker} is in no ISR")
        finally:
            real.resume()
            result = await asyncio.to_thread(load.stop)
        assert result.failures == []
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
        await self.waiting.until(lambda: self._missing_unjudged(followed), "changes of ISRs are seen")

    async def _missing_records(self, load: ProducerLoad) -> str | None:
        return None if load.acknowledged > PARTITIONS else "records are not acknowledged"

    async def _all_is_judged(self) -> None:
        """Wait until an observation that began after now is compared: events since the last one are not awaited yet.

        One observation may be under way, the next one begins later, and with the third the second was compared.
        """
        looks = (await self.observations())["looks"] + 3

        async def missing() -> str | None:
            now = await self.observations()
            if now["looks"] < looks:
                return f"{looks - now['looks']} looks are to come"
            return f"{now['unsettled']} causes are not settled" if now["unsettled"] else None

        await self.waiting.until(missing, "all that happened before is judged")

    async def _missing_unjudged(self, partitions: Collection[TopicPartition]) -> str | None:
        changed = {row.tp for row in await self.seen() if row.cause == UnexplainedKind.ISR_CHANGED.value}
        lacking = set(partitions) - changed
        return f"{sorted(lacking)} did not change" if lacking else None

    # -- ZooKeeper's own log -----------------------------------------------------------------------------------------

    def _read_log(self) -> list[LoggedTransaction]:
        self._logged += self._log.read_new()
        return self._logged

    def _session_of(self, broker: int) -> int:
        return [session for session, owner in registrations(self._read_log()).items() if owner == broker][-1]

    async def judge_writes(self) -> None:
        """Check that the observer's session wrote nothing, and that other sessions wrote everything."""
        await self.status()
        assert await self.observer.process.terminate() == 0
        logged = self._read_log()
        (session_id,) = self.sessions
        ours = [each for each in logged if each.session_id & (2**64 - 1) == session_id]
        assert [[operation.op for operation in each.operations] for each in ours] == [[], ["closeSession"]]
        brokers, written = registrations(logged), writers(logged)
        (operator,) = (session for session, touched in written.items() if session not in brokers)
        assert f"{paths.CONFIG_TOPICS}/{TOPIC}" in written[operator]
        by_brokers = sum(len(touched) for session, touched in written.items() if session in brokers)
        print(
            f"ZooKeeper's log: {len(logged)} transactions; {by_brokers} writes by {len(brokers)} sessions of brokers, "
            f"{len(written[operator])} by the one that created the topic, none by the observer, "
            f"whose {len(ours)} transactions begin and end its session"
        )


def _seen(directory: Path) -> list[ObservedPartition]:
    records = (record for _, record in AuditReader(directory) if isinstance(record, ObservationRecord))
    return [row for record in records for row in _rows(record)]


def _rows(record: ObservationRecord) -> list[ObservedPartition]:
    def leaderships_of(leaders: list[int], epochs: list[int], isrs: list[list[int]]) -> list[Leadership]:
        return [Leadership(leader, epoch, tuple(isr)) for leader, epoch, isr in zip(leaders, epochs, isrs, strict=True)]

    columns = (
        [tp(*one) for one in zip(record.topics, record.partitions, strict=True)],
        leaderships_of(record.leaders_before, record.leader_epochs_before, record.isrs_before),
        leaderships_of(record.leaders_would, record.leader_epochs_would, record.isrs_would),
        leaderships_of(record.leaders_after, record.leader_epochs_after, record.isrs_after),
        record.verdicts,
    )
    return [ObservedPartition(record.cause, record.controller_epoch, *row) for row in zip(*columns, strict=True)]


@asynccontextmanager
async def watched_brokers(directory: Path) -> AsyncIterator[ObservedCluster]:
    """Three brokers with a topic that each of them has and leads in part, and an observer that has just started."""
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(EmbeddedZooKeeper(directory / "zookeeper"))
        connect = f"{zookeeper.connect}{CHROOT}"
        tools = await stack.enter_async_context(ZooKeeperObserver(connect))
        brokers = {n: RealBroker(n, connect, directory / f"broker-{n}", overrides=BROKERS) for n in BROKER_IDS}
        for broker in brokers.values():
            stack.push_async_callback(broker.close)
        await asyncio.gather(*(broker.start() for broker in brokers.values()))
        home = directory / "controllerd"
        observer = ControllerProcess(
            FIRST_NODE_ID, connect, home, session_timeout_ms=SESSION_MS, when_broker_holds="standby", settings=OBSERVE
        )
        stack.push_async_callback(observer.close)
        watched = ObservedCluster(DevCluster("kafka", directory, zookeeper, tools, brokers, [observer]), zookeeper)
        assignments = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
        await tools.create_topic(TOPIC, assignments, {"min.insync.replicas": "2"})
        await watched.waiting.until(watched.waiting.missing_isr, "the ISRs are full")
        await watched.replicas_catch_up()
        await observer.start()
        yield watched


async def test_the_dry_run_elects_like_kafkas_controller_and_nothing_is_written(tmp_path: Path) -> None:
    async with watched_brokers(tmp_path) as watched:
        holder = await watched.holder()
        other = next(broker for broker in BROKER_IDS if broker != holder)
        failure_with_equal_elections = (CauseKind.BROKER_FAILED.value, "equal")

        found = await watched.stop_broker(other)
        assert Counter((row.cause, row.verdict) for row in found) == {failure_with_equal_elections: PARTITIONS}

        # The observer may see the takeover after the broker is gone: the failover is a cause of its own.
        found = await watched.stop_broker(holder)
        counted = Counter((row.cause, row.verdict) for row in found)
        assert counted[failure_with_equal_elections] == PARTITIONS
        assert counted.keys() <= {failure_with_equal_elections, (CauseKind.FAILOVER.value, "equal")}
        assert await watched.holder() != holder

        found = await watched.stop_broker(await watched.follower_that_leads_most(), is_controlled=True)
        assert {row.verdict for row in found} <= {"equal", "not judged"}

        await watched.elect_preferred_leaders()
        await watched.pause_follower(await watched.follower_that_leads_most())

        await judge_the_report(watched)
        await watched.judge_writes()


async def judge_the_report(watched: ObservedCluster) -> None:
    """Check that no decision differs, and that the report names the causes that it cannot judge."""
    report = await watched.observations()
    totals = {(row["cause"], row["ruling"]): row["partitions"] for row in report["totals"]}
    print(f"{report['looks']} looks, {report['torn']} torn: {totals}")
    assert {ruling for _, ruling in totals} <= {"equal", "unclear", "not judged"}
    assert {cause for cause, ruling in totals if ruling == "not judged"} <= set(report["not_judged"])
    assert totals[UnexplainedKind.ISR_CHANGED.value, "not judged"] > 0
    assert (UnexplainedKind.ISR_CHANGED.value, "equal") not in totals
    assert report["not_judged"] == [kind.value for kind in UnexplainedKind]
    assert report["cannot_be_seen"] == list(CANNOT_BE_SEEN)
    assert report["would_refuse"] is None

    shown = await controllerctl("--api", f"http://{watched.observer.http}", "observations", "--check")
    assert shown.code == 0, shown.out
    assert "AlterPartition" in shown.out
    refused = await controllerctl("--api", f"http://{watched.observer.http}", "--yes", "takeover")
    assert refused.code != 0, "an observer took the role"
