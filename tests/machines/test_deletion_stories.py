"""Topic deletions in random sequences of events that create and delete topics, fail brokers and replace controllers.

A seed that fails is a reproduction. At the end of each sequence, no deletion or reassignment waits, every broker has on
disk exactly its assigned replicas, knows exactly the existing topics and has no pending deletion, and the audit log
breaks no invariant.
"""

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import CallRefused, NotController
from controllerd.record.invariants import check
from controllerd.record.records import AlarmRecord
from events.admin import ForgetBroker
from events.cluster import BrokerRefresh, Resync
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReceived, ProposedIsr
from events.topics import TopicDeletionRetry
from tests.fakes.disks import Disks, successor
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, topic_id_of
from tests.record.logs import stamped_log

SEEDS: Final = 25
STEPS: Final = 60
BROKERS: Final = (1, 2, 3, 4)
TOPICS: Final = "/brokers/topics/"
CALM: Final = Policy(auto_leader_rebalance_enable=False)
Act = Callable[[], Awaitable[None]]


class RandomDeletions:
    """One random sequence of events: ``play`` it, then ``end`` it."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._made = 0
        self.disks = Disks(World(policy=CALM))

    @property
    def world(self) -> World:
        """The present controller with its ZooKeeper and channels."""
        return self.disks.world

    async def play(self) -> None:
        """Take all steps; after some of them, handle every event."""
        for broker in BROKERS:
            self.world.register(broker)
        await self.disks.start()
        acts: list[Act] = [
            *[self._create, self._delete] * 4,
            *[self._die, self._return, self._reassign, self._catch_up] * 2,
            *[self._bounce, self._refuse, self._fall_silent, self._mend, self._expand, self._cancel],
            *[self._fail_over, self._crash, self._forget, self._repeat],
        ]
        for _ in range(STEPS):
            await self._chance.choice(acts)()
            if self._chance.random() < 0.5:
                await self.disks.settle()

    async def end(self) -> None:
        """End every fault, and give all brokers the time to catch up."""
        self.disks.refusing.clear()
        self.disks.silent.clear()
        for broker in BROKERS:
            self.world.bounce(broker) if broker in self._live() else self.world.register(broker)
        await self.disks.settle()
        for _ in range(4):
            await self._catch_up(all_leaders=True)
            self.world.queue.put(TopicDeletionRetry())
            await self.disks.settle()

    # -- topics --------------------------------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        return sorted({path.split("/")[3] for path in self.world.tree.nodes if path.startswith(TOPICS)})

    def _some_replicas(self) -> list[int]:
        return self._chance.sample(BROKERS, self._chance.randint(1, 3))

    async def _create(self) -> None:
        name = f"t{self._chance.randrange(4)}"
        if name not in self._topics() and f"/admin/delete_topics/{name}" not in self.world.tree.nodes:
            self._made += 1
            partitions = {number: self._some_replicas() for number in range(self._chance.randint(1, 3))}
            self.world.put_topic(name, partitions, topic_id_of(f"{name} number {self._made}"))

    async def _delete(self) -> None:
        for name in self._chance.sample(self._topics(), min(1, len(self._topics()))):
            if f"/admin/delete_topics/{name}" not in self.world.tree.nodes:
                self.world.tree.put(f"/admin/delete_topics/{name}")

    async def _expand(self) -> None:
        for name in self._topics()[:1]:
            body = json.loads(self.world.tree.nodes[TOPICS + name].data or b"{}")
            body["partitions"][str(len(body["partitions"]))] = self._some_replicas()
            self.world.tree.put(TOPICS + name, json.dumps(body).encode())

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _live(self) -> list[int]:
        return [broker for broker in BROKERS if f"/brokers/ids/{broker}" in self.world.tree.nodes]

    def _away(self) -> list[int]:
        return [broker for broker in BROKERS if broker not in self._live()]

    async def _die(self) -> None:
        if self._live():
            self.world.die(self._chance.choice(self._live()))

    async def _return(self) -> None:
        if self._away():
            self.world.register(self._chance.choice(self._away()))

    async def _bounce(self) -> None:
        if self._live():
            self.world.bounce(self._chance.choice(self._live()))

    async def _refuse(self) -> None:
        self.disks.refusing[self._chance.choice(BROKERS)] = KafkaError.KAFKA_STORAGE_ERROR

    async def _fall_silent(self) -> None:
        self.disks.silent.add(self._chance.choice(BROKERS))

    async def _mend(self) -> None:
        self.disks.refusing.clear()
        silent, self.disks.silent = self.disks.silent, set()
        for broker in sorted(silent.intersection(self._live())):
            self.world.bounce(broker)

    # -- requests to the controller ------------------------------------------------------------------------------------

    async def _reassign(self) -> None:
        known = sorted(record.tp for record in self.world.context.records())
        if known:
            targets = {self._chance.choice(known): ids(*self._some_replicas())}
            await self._ask_to_reassign(targets)

    async def _cancel(self) -> None:
        await self._ask_to_reassign(dict.fromkeys(sorted(self.world.context.being_reassigned)[:1]))

    async def _ask_to_reassign(self, targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]) -> None:
        try:
            await self.world.call(ApiPartitionReassignment(ALICE, targets))
        except NotController:
            return

    async def _catch_up(self, *, all_leaders: bool = False) -> None:
        """Leaders take replicas that are live into their ISRs."""
        context = self.world.context
        for tp in sorted(record.tp for record in context.records()):
            state = context.leadership(tp)
            if state is None or state.leader not in context.brokers or not (all_leaders or self._chance.random() < 0.5):
                continue
            behind = [b for b in context.assignment(tp).replicas if b in context.live and b not in state.isr]
            if behind:
                change = ProposedIsr(state.leader_epoch, state.partition_epoch, (*state.isr, *behind))
                epoch = context.brokers[state.leader].epoch
                await self.world.call(AlterPartitionReceived(state.leader, epoch, 1, {tp: change}, {}))

    async def _forget(self) -> None:
        for broker in self._away()[:1]:
            try:
                await self.world.call(ForgetBroker(BrokerId(broker), "it burnt down"))
            except (CallRefused, NotController):
                return

    async def _repeat(self) -> None:
        """Repeat an event that should change nothing."""
        again = [TopicDeletionRetry(), Resync(), *[BrokerRefresh(BrokerId(b), reopen=True) for b in self._live()]]
        self.world.queue.put(self._chance.choice(again))

    # -- controllers ---------------------------------------------------------------------------------------------------

    async def _fail_over(self) -> None:
        self.judge_log()
        before = self.disks
        self.disks = successor(before, before.world.zk.session_id + 1, policy=CALM)
        if not before.world.zk.is_lost:
            before.world.zk.expire()
        await self.world.start()

    async def _crash(self) -> None:
        """Expire the session of the controller right after one of its next transactions."""
        zk = self.world.zk
        zk.after_transaction[number := len(zk.transactions) + self._chance.randint(1, 6)] = zk.expire
        for act in self._chance.choices([self._delete, self._die, self._return, self._reassign], k=3):
            await act()
            await self.disks.settle()
        zk.after_transaction.pop(number, None)
        if zk.is_lost:
            await self._fail_over()

    # -- judgement -----------------------------------------------------------------------------------------------------

    def judge_log(self) -> None:
        """The audit log of this controller breaks no invariant, and names no defect."""
        records = self.world.audit.records
        assert [f"{found.id}: {found.evidence}" for found in check(stamped_log(records))] == []
        assert [record for record in records if isinstance(record, AlarmRecord) and "failed" in record.what] == []

    def judge_end(self) -> None:
        """No operation is pending, and every broker has its assigned replicas and knows the existing topics."""
        context = self.world.context
        assert self.world.tree.children("/admin/delete_topics") == [], context.deletions.halted
        assert context.being_reassigned == set()
        assert context.pending_deletions.brokers() == []
        records = list(context.records())
        for broker in BROKERS:
            assigned = {record.tp for record in records if broker in record.assignment.replicas}
            assert self.disks.logs.get(broker, set()) == assigned
            assert self.disks.metadata.get(broker, {}).keys() == {record.tp for record in records if record.leadership}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_deletion_completes_and_brokers_have_their_assigned_replicas(seed: int) -> None:
    story = RandomDeletions(seed)
    await story.play()

    await story.end()

    story.judge_log()
    story.judge_end()
