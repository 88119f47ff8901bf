"""Snapshots and digests between events: a replay may begin at any of them and arrives where the controller is."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from controllerd.audit.checkpoints import Checkpoints
from controllerd.core.model import BrokerId
from controllerd.loop import EventLoop
from controllerd.record.digest import FoldDigest, digest_of
from controllerd.record.envelope import Envelope
from controllerd.record.fold import apply
from controllerd.record.invariants import check
from controllerd.record.records import (
    DigestRecord,
    EventBegin,
    EventEnd,
    GapRecord,
    Record,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
)
from controllerd.record.state import ClusterState
from events.cluster import ShutdownEventThread
from events.elections import AutoPreferredReplicaLeaderElection
from tests.fakes.world import World, tp

BROKERS: Final = range(1, 6)
INTERVAL_S: Final = 3600.0
DIGEST_S: Final = 60.0

Log = list[tuple[Envelope, Record]]


class Rested:
    """A world with the writer of snapshots and digests, in steps of two partitions."""

    def __init__(self, seed: int = 0) -> None:
        self.world = World()
        self.random = random.Random(seed)
        self.checkpoints = Checkpoints(
            self.world.context,
            self.world.snapshot,
            self.world.bus,
            self.world.clock.monotonic,
            snapshot_interval_s=INTERVAL_S,
            digest_interval_s=DIGEST_S,
            step_rows=2,
        )
        self._topics = 0

    async def start(self) -> "Rested":
        """A cluster of five brokers with some topics, led."""
        for broker in BROKERS:
            self.world.register(broker)
        for _ in range(8):
            self.create_topic()
        await self.world.start()
        self.checkpoints.step()
        return self

    def log(self) -> Log:
        """Everything so far, with the numbers of events."""
        entries: Log = []
        event = epoch = 0
        for seq, record in enumerate(self.world.audit.records, 1):
            if isinstance(record, EventBegin):
                event = record.number
            epoch = record.controller_epoch if isinstance(record, TermRecord) else epoch
            entries.append((Envelope(1, record.kind, "c", 1, "b", seq, epoch, event, seq, seq, ""), record))
            event = 0 if isinstance(record, EventEnd) else event
        return entries

    def finish(self) -> None:
        """Everything that is due, to its end."""
        while self.checkpoints.step():
            pass

    # -- what happens in the cluster ---------------------------------------------------------------------------------

    def create_topic(self) -> None:
        """A topic with up to six partitions."""
        self._topics += 1
        self.put(f"t{self._topics}", self.random.randint(1, 6))

    def put(self, name: str, partitions: int) -> None:
        """Write a topic znode; partitions that are there keep their replicas."""
        node = self.world.tree.nodes.get(f"/brokers/topics/{name}")
        known = json.loads(node.data or b"")["partitions"] if node is not None else {}
        wanted = {int(number): replicas for number, replicas in known.items()}
        for number in range(len(wanted), partitions):
            wanted[number] = self.random.sample(BROKERS, 3)
        self.world.put_topic(name, wanted)

    async def happen(self) -> None:
        """One random thing, with everything that follows from it."""
        act = self.random.choice([self._bounce, self._create, self._grow, self._delete, self._reassign, self._die])
        act()
        await self.world.settle()

    def _create(self) -> None:
        self.create_topic()

    def _live(self) -> list[BrokerId]:
        return sorted(self.world.context.brokers)

    def _die(self) -> None:
        live = self._live()
        if len(live) > 2:
            self.world.die(self.random.choice(live))
        else:
            self._return()

    def _return(self) -> None:
        gone = [broker for broker in BROKERS if broker not in self.world.context.brokers]
        if gone:
            self.world.register(self.random.choice(gone))

    def _bounce(self) -> None:
        self._return()
        self.world.bounce(self.random.choice(self._live()))

    def _grow(self) -> None:
        name = self._some_topic()
        self.put(name, len(self.world.context.topics[name].partitions) + 2)

    def _delete(self) -> None:
        self.world.tree.put(f"/admin/delete_topics/{self._some_topic()}")

    def _reassign(self) -> None:
        name = self._some_topic()
        moves = [{"topic": name, "partition": 0, "replicas": self.random.sample(self._live(), 2)}]
        if "/admin/reassign_partitions" not in self.world.tree.nodes:
            self.world.tree.put("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": moves}).encode())

    def _some_topic(self) -> str:
        return self.random.choice(sorted(self.world.context.topics))


def folded(log: Sequence[tuple[Envelope, Record]]) -> ClusterState:
    """The state after these records."""
    state = ClusterState()
    for envelope, record in log:
        apply(state, envelope, record)
    return state


def cluster_of(state: ClusterState) -> ClusterState:
    """The state without the session and without who holds the role since when, which no snapshot says."""
    return replace(state, seq=0, ts_ms=0, session="", session_id=0, term="", holder="")


def since_last_snapshot(log: Log) -> Log:
    """The log from the newest periodic snapshot on."""
    starts = [at for at, (_, record) in enumerate(log) if isinstance(record, SnapshotBegin) and record.periodic]
    return log[starts[-1] :]


@pytest.mark.parametrize("seed", range(10))
async def test_a_fold_that_begins_at_a_periodic_snapshot_arrives_where_a_fold_of_everything_does(seed: int) -> None:
    rested = await Rested(seed).start()
    for _ in range(10):
        await rested.happen()
    rested.world.clock.now += INTERVAL_S
    while rested.checkpoints.step():
        if rested.random.random() < 0.3:
            await rested.happen()
    log = rested.log()
    later = since_last_snapshot(log)
    assert any(envelope.event for envelope, _ in later), "nothing happened during the snapshot"
    assert cluster_of(folded(later)) == cluster_of(folded(log))
    assert folded(later).topics


async def test_at_100_random_points_the_digest_is_that_of_the_fold() -> None:
    rested = await Rested(seed=7).start()
    while len(rested.world.audit.of(DigestRecord)) < 100:
        await rested.happen()
        rested.world.clock.now += DIGEST_S
        while rested.checkpoints.step():
            if rested.random.random() < 0.05:
                await rested.happen()
    running, state, seen = FoldDigest(), ClusterState(), set()
    for envelope, record in rested.log():
        running.add(record)
        apply(state, envelope, record)
        if isinstance(record, DigestRecord):
            partitions = sum(1 for _ in state.partitions())
            assert record == DigestRecord(running.of(state), partitions, len(state.brokers))
            assert record.digest == digest_of(state)
            seen.add(record.digest)
    assert len(seen) > 50


async def test_a_log_with_snapshots_and_digests_violates_nothing() -> None:
    rested = await Rested(seed=3).start()
    for _ in range(15):
        await rested.happen()
        rested.world.clock.now += INTERVAL_S
        while rested.checkpoints.step():
            if rested.random.random() < 0.2:
                await rested.happen()
    assert list(check(rested.log())) == []
    assert len([record for _, record in rested.log() if isinstance(record, SnapshotEnd)]) > 10


async def test_a_log_whose_first_segments_were_removed_is_judged_from_its_next_snapshot_without_false_alarm() -> None:
    rested = await Rested(seed=5).start()
    for _ in range(8):
        await rested.happen()
        rested.world.clock.now += INTERVAL_S
        while rested.checkpoints.step():
            if rested.random.random() < 0.2:
                await rested.happen()
    log = rested.log()
    cuts = rested.random.sample(range(1, len(log)), 40)
    assert {cut: violations for cut in cuts if (violations := list(check(log[cut:])))} == {}
    broken = [*log[min(cuts) :], (replace(log[-1][0], seq=len(log) + 3), log[-1][1])]
    assert list(check(broken)), "numbers are missing, and the judge sleeps"


async def test_a_digest_is_left_out_while_nothing_changes() -> None:
    rested = await Rested().start()
    for _ in range(3):
        rested.world.clock.now += DIGEST_S
        rested.finish()
    assert len(rested.world.audit.of(DigestRecord)) == 1
    await rested.happen()
    rested.world.clock.now += DIGEST_S
    rested.finish()
    assert len(rested.world.audit.of(DigestRecord)) == 2


async def test_a_digest_costs_the_topics_that_changed() -> None:
    rested = await Rested().start()
    rested.world.clock.now += DIGEST_S
    rested.finish()
    rested.put("t3", 7)
    await rested.world.settle()
    rested.world.clock.now += DIGEST_S
    steps = 0
    while rested.checkpoints.step():
        steps += 1
    assert steps == 3, "one for the topic that changed, one for the record, one to find that this was all"


async def test_the_end_of_a_term_ends_its_snapshot() -> None:
    rested = await Rested().start()
    rested.world.clock.now += INTERVAL_S
    rested.checkpoints.step()
    rested.world.context.reset()
    assert not rested.checkpoints.step()
    assert not [record for record in rested.world.audit.of(SnapshotBegin)[1:] if not record.periodic]
    assert len(rested.world.audit.of(SnapshotEnd)) == 1


async def test_after_a_gap_the_next_snapshot_makes_the_state_whole_again() -> None:
    rested = await Rested(seed=5).start()
    before = len(rested.world.audit.records)
    for _ in range(10):
        await rested.happen()
    del rested.world.audit.records[before:]
    rested.world.audit.record(GapRecord(9, before + 1, before + 9, "the disk was full"))
    assert cluster_of(folded(rested.log())).topics != rested.world.context.topics.keys()
    rested.checkpoints.gaps = lambda: 1
    rested.finish()
    log = rested.log()
    assert cluster_of(folded(log)) == cluster_of(folded(since_last_snapshot(log)))
    assert folded(log).topics.keys() == rested.world.context.topics.keys()
    assert isinstance(log[-1][1], DigestRecord)
    assert log[-1][1].digest == digest_of(folded(log))


async def test_a_loss_in_the_first_snapshot_of_a_term_is_followed_by_another_snapshot_at_once() -> None:
    rested = await Rested(seed=6).start()
    opening = rested.world.audit.records
    at = next(number for number, record in enumerate(opening) if isinstance(record, TopicsRecord))
    opening[at] = GapRecord(1, at + 1, at + 1, "the disk was full")
    later = Checkpoints(
        rested.world.context,
        rested.world.snapshot,
        rested.world.bus,
        rested.world.clock.monotonic,
        snapshot_interval_s=INTERVAL_S,
        digest_interval_s=DIGEST_S,
    )
    later.gaps = lambda: 1
    while later.step():
        pass
    assert folded(rested.log()).topics.keys() == rested.world.context.topics.keys()


async def test_a_topic_that_comes_back_under_its_name_is_not_mixed_with_the_one_before() -> None:
    rested = Rested()
    rested.world.put_topic("t", {number: [1, 2] for number in range(5)})
    for broker in BROKERS:
        rested.world.register(broker)
    await rested.world.start()
    rested.checkpoints.step()
    rested.world.clock.now += INTERVAL_S
    for _ in range(2):
        assert rested.checkpoints.step()
    rested.world.context.remove_topic("t")
    rested.world.put_topic("t", {0: [3]}, topic_id=None)
    rested.world.context.take_changes()
    rested.finish()
    written = [record for _, record in since_last_snapshot(rested.log()) if isinstance(record, TopicsRecord)]
    assert [record.names for record in written] == [["t"]]
    assert rested.world.context.find(tp("t")) is None


async def test_a_step_is_taken_between_two_events_however_many_wait() -> None:
    rested = await Rested().start()
    world = rested.world
    world.clock.now += INTERVAL_S
    loop = EventLoop(world.c, world.watch, world.metrics, at_rest=rested.checkpoints.step)
    for _ in range(100):
        world.queue.put(AutoPreferredReplicaLeaderElection())
    world.queue.put(ShutdownEventThread())
    await loop.run()
    log = rested.log()
    later = since_last_snapshot(log)
    assert {type(record) for _, record in later} >= {SnapshotEnd, DigestRecord, EventBegin}
    written = [at for at, (_, record) in enumerate(later) if isinstance(record, TopicsRecord)]
    assert all(isinstance(later[at - 1][1], EventEnd) for at in written), "each part comes right after an event"
