"""The role moves ten times from a broker's own controller to controllerd and back, by commands, under load.

In each term, the controller of that term creates a topic and moves the leader of a partition under load. At the end,
ZooKeeper's own transaction log proves the terms, and that no other controller wrote a state.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from controllerd.dev.cluster import BROKER_IDS, FIRST_NODE_ID, DevCluster
from controllerd.dev.load import ProducerLoad
from controllerd.dev.observe import audit_violations
from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.real.comparison.asking import CREATE, ELECT, MOVE, answer_of, ms
from tests.real.comparison.creations import topic
from tests.real.handover import WORST_GAP_S, Handover, brokers_first, role_changes
from tests.real.history import states, terms
from tests.real.operator import Operator, tp
from tests.real.scene import NO_REBALANCE
from tests.real.trial import PARTITIONS, RECORDS_PER_S, TOPIC, Trial

ROUNDS: Final = 10
PLAIN: Final = "plain"
"""A topic whose producer is not idempotent and sends one request after the other."""
PATIENCE: Final = ms(30_000)
PREFERRED: Final = 0
ASSIGNMENTS: Final = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
BROKERS_WITHOUT_REBALANCE: Final = {"auto.leader.rebalance.enable": "false"}


class Handovers(Trial):
    """A cluster whose role changes hands, and two loads."""

    def __init__(self, cluster: DevCluster) -> None:
        super().__init__(cluster)
        self.operator = Operator(cluster)
        self.handover = Handover(self.waiting, self.operator)
        self.plain = ProducerLoad(
            cluster.bootstrap, PLAIN, PARTITIONS, records_per_s=RECORDS_PER_S / 2, idempotent=False
        )
        self.began_at = 0.0
        self.moved = 0
        """The number of leaders moved so far; it selects the next partition of the topic."""

    async def begin(self) -> None:
        """A broker leads, controllerd stands by, and both loads run."""
        for name in (TOPIC, PLAIN):
            await self.cluster.observer.create_topic(name, ASSIGNMENTS, {"min.insync.replicas": "2"})
        await self.handover.until_brokers_lead()
        await self.handover.controller.start()
        assert await self.handover.controller.role() == "standby"
        self.began_at = time.monotonic()
        self.load.start()
        self.plain.start()
        await self.until_acknowledged_again()

    async def step(self, name: str, change: Callable[[], Awaitable[None]]) -> None:
        """Make a change, and compare the worst gap of both loads with the allowance."""
        since = time.monotonic()
        await change()
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
        await self.until_acknowledged_again()
        gaps = [load.result.worst_gap_s(since_s=since) for load in (self.load, self.plain)]
        gap_texts = " and ".join(f"{gap:.2f} s" for gap in gaps)
        print(f"{name}: worst gaps {gap_texts}, whole after {time.monotonic() - since:.1f} s")
        assert max(gaps) <= WORST_GAP_S, name

    async def until_acknowledged_again(self) -> None:
        """Wait until records of both loads are acknowledged again."""
        before = self.plain.acknowledged
        await super().until_acknowledged_again()

        async def missing() -> str | None:
            return self.plain.missing_after(before, records=RECORDS_PER_S / 2)

        await self.waiting.until(missing, "records without idempotence are acknowledged again")

    # -- the steps of a round ----------------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Run ``controllerctl takeover``, and wait until the audit log shows it."""
        await self.handover.take_over()
        await self.waiting.until(self.missing_audit, "the audit log folds to ZooKeeper")

    async def act(self) -> None:
        """Let the present controller create a topic and move the leader of a partition under load."""
        leader, epoch = await self.handover.leads(), await self.epoch()
        port = self.handover.controller.kafka_port if leader == FIRST_NODE_ID else self.cluster.brokers[leader]
        await self._create(port.port, f"made-in-{epoch}", epoch)
        await self._move_leader(port.port, self.moved % PARTITIONS, epoch)
        self.moved += 1

    async def _create(self, port: int, name: str, epoch: int) -> None:
        values = {"topics": [topic(name, 3, 3)], "timeout": PATIENCE, "validate_only": False}
        made = await answer_of(port, CREATE, 7, values)
        assert [row.error_code for row in made.topics] == [ErrorCode.none]
        for partition in range(3):
            assert (await self.waiting.leadership(name, partition)).controller_epoch == epoch

    async def _move_leader(self, port: int, partition: int, epoch: int) -> None:
        view = await self.cluster.view()
        before = view.leaderships[tp(TOPIC, partition)]
        old, new, last = view.assignments[tp(TOPIC, partition)].replicas
        assert before.leader == old
        rows = [{"name": TOPIC, "partitions": [{"partition_index": partition, "replicas": [new, last, old]}]}]
        moved = await answer_of(port, MOVE, 0, {"topics": rows, "timeout": PATIENCE})
        assert [row.error_code for row in moved.responses[0].partitions] == [ErrorCode.none]
        await self.waiting.until(lambda: self._missing_order(partition, (new, last, old)), "the order is another")
        wanted = {"election_type": PREFERRED, "topic_partitions": [{"topic": TOPIC, "partitions": [partition]}]}
        elected = await answer_of(port, ELECT, 2, {**wanted, "timeout": PATIENCE})
        (result,) = elected.replica_election_results
        assert [row.error_code for row in result.partition_result] == [ErrorCode.none]
        after = await self.waiting.leadership(TOPIC, partition)
        assert (after.leader, after.controller_epoch) == (new, epoch)
        assert after.leader_epoch > before.leader_epoch

    async def _missing_order(self, partition: int, replicas: tuple[int, ...]) -> str | None:
        now = (await self.cluster.view()).assignments[tp(TOPIC, partition)]
        return None if now.replicas == replicas and not now.is_being_reassigned else f"it is {now}"

    # -- checks at the end -------------------------------------------------------------------------------------------

    async def judge_loads(self) -> None:
        """Check that no acknowledged record is lost or out of order, and with idempotence that none is duplicated."""
        for name, load in ((TOPIC, self.load), (PLAIN, self.plain)):
            result = await asyncio.to_thread(load.stop)
            consumed = await asyncio.to_thread(consume_all, self.cluster.bootstrap, name)
            checked = verify(result.acknowledged, consumed)
            print(f"{name}: {checked}, worst gap of all {result.worst_gap_s(since_s=self.began_at):.2f} s")
            assert checked.lost == checked.out_of_order == 0, name
            assert name == PLAIN or checked.ok
            assert (result.failures, result.fatal_error) == ([], None), name

    def judge_history(self) -> None:
        """Check by ZooKeeper's log: epochs rise one by one, and only the controller of an epoch wrote states in it."""
        assert isinstance(self.cluster.zookeeper, EmbeddedZooKeeper)
        logged = TransactionLog(self.cluster.zookeeper.data_directory).read_new()
        led = terms(logged)
        assert [term.epoch for term in led] == list(range(1, 2 * ROUNDS + 2))
        assert [term.node == FIRST_NODE_ID for term in led] == [False, *[True, False] * ROUNDS]
        assert {term.node for term in led} <= {*BROKER_IDS, FIRST_NODE_ID}
        written = list(states(logged))
        assert [each for each in written if not each.is_of_its_term] == []
        assert {each.state.controller_epoch for each in written} == {term.epoch for term in led}
        print(f"{len(led)} terms, led by {[term.node for term in led]}; {len(written)} states, each of its own term")

    async def judge_audit(self) -> None:
        """Check that the audit log of controllerd is sound, and has the same changes of the role."""
        (log,) = await self.audit_logs()
        assert await asyncio.to_thread(audit_violations, log) == []
        ours = range(2, 2 * ROUNDS + 2, 2)
        changes = [(change, epoch) for change, epoch in role_changes(log) if change != "held"]
        assert changes == [(change, epoch) for epoch in ours for change in ("elected", "resigned")]


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Handovers]:
    """A cluster under load with a broker as the controller."""
    async with brokers_first(
        directory, when_broker_holds="standby", overrides=BROKERS_WITHOUT_REBALANCE, settings=NO_REBALANCE
    ) as cluster:
        handovers = Handovers(cluster)
        await handovers.operator.open()
        try:
            await handovers.begin()
            yield handovers
        finally:
            await handovers.operator.close()
            for load in (handovers.load, handovers.plain):
                if load.acknowledged:
                    await asyncio.to_thread(load.stop)


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(480)
async def test_the_role_moves_to_controllerd_and_back_ten_times_under_load(tmp_path: Path) -> None:
    async with opened(tmp_path) as handovers:
        for number in range(1, ROUNDS + 1):
            await handovers.step(f"{number}: a broker acts", handovers.act)
            await handovers.step(f"{number}: controllerd takes over", handovers.take_over)
            await handovers.step(f"{number}: controllerd acts", handovers.act)
            await handovers.step(f"{number}: controllerd resigns", handovers.handover.resign)
        await handovers.step("a broker acts once more", handovers.act)

        await handovers.judge_loads()
        await handovers.judge_audit()
        handovers.judge_history()
