"""An observer of a large cluster gives the event loop a turn after every slice of partitions."""

from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import controllerd.observer
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment
from controllerd.observer.causes import UnexplainedKind
from controllerd.observer.dry_run_collaborators import WatchedConfiguration
from controllerd.observer.observer import Observer
from controllerd.slicer import SLICE, Slicer
from controllerd.zk import codecs
from controllerd.zk.read_only import ReadOnly
from tests.fakes.audit import RecordingAudit
from tests.fakes.store import FakeStore
from tests.fakes.world import NODE_ID, ManualClock, ids, tp
from tests.fakes.zookeeper import FakeZooKeeper
from tests.handlers.test_slices import Stretches

TOPICS, PARTITIONS = 6, 1_000
LINES_OF_A_SLICE = 40 * SLICE
"""More than any step over a slice executes, and less than one over all 6,000 partitions does."""
OURS = str(Path(controllerd.observer.__file__).parent)
RECORDS = str(Path(OURS) / "report.py")
"""The module makes each record of 5,000 rows in one step, as all modules do."""
OLD, NEW = ReplicaAssignment(ids(1, 2)), ReplicaAssignment(ids(2, 3))
MOVING = ReplicaAssignment(ids(2, 3, 1), ids(3), ids(1))
Step = Callable[[FakeStore], None]


class Watching(Stretches):
    """Counts the lines of the observer that run between two turns of the event loop."""

    def _trace(self, frame: FrameType, _event: str, _arg: object) -> Any:
        name = frame.f_code.co_filename
        return self._line if name.startswith(OURS) and name != RECORDS else None


class Watched:
    """Six topics of 1,000 partitions, each led by broker 1 and followed by broker 2, and an observer of them."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.store.lead()
        for broker in (1, 2, 3):
            self.store.add_broker(broker)
        assign(self.store, OLD)
        led_by(self.store, 1, 0)
        self.clock, self.watching = ManualClock(), Watching()
        zk = ReadOnly(FakeZooKeeper(self.store.tree, 99))
        self.observer = Observer(
            zk, lambda: WatchedConfiguration(NODE_ID, "PLAINTEXT"), self.clock, RecordingAudit(), slicer=Slicer(0.0)
        )

    async def observe(self, after_s: float = 0.0) -> None:
        """Look again, so many seconds later, and count."""
        self.clock.now += after_s
        await self.watching.over(self.observer.observe())

    @property
    def rulings(self) -> set[str]:
        """The rulings of all partitions by cause; a ruling has all partitions or none."""
        totals = self.observer.report.totals
        assert set(totals.values()) <= {TOPICS * PARTITIONS}
        return {f"{cause}: {ruling}" for cause, ruling in totals}


def assign(store: FakeStore, assignment: ReplicaAssignment) -> None:
    for topic in range(TOPICS):
        store.add_topic(f"t{topic}", dict.fromkeys(range(PARTITIONS), assignment))


def led_by(store: FakeStore, leader: int, leader_epoch: int) -> None:
    state = LeaderAndIsr(BrokerId(leader), leader_epoch, ids(1, 2), 1, 0)
    for topic in range(TOPICS):
        for partition in range(PARTITIONS):
            store.set_state(tp(f"t{topic}", partition), state)


def nothing(_store: FakeStore) -> None:
    pass


def a_broker_dies(store: FakeStore) -> None:
    store.remove_broker(1)


def leaders_move(store: FakeStore) -> None:
    led_by(store, 2, 1)


def leaders_are_gone(store: FakeStore) -> None:
    led_by(store, -1, 1)


def unclean_elections_are_allowed(store: FakeStore) -> None:
    store.tree.put("/config/brokers/<default>", codecs.encode_config({"unclean.leader.election.enable": "true"}))


def another_controller_elects(store: FakeStore) -> None:
    store.depose()
    led_by(store, 2, 1)


def reassignments_begin(store: FakeStore) -> None:
    assign(store, MOVING)


def reassignments_end(store: FakeStore) -> None:
    assign(store, NEW)


def deletions_are_asked_for(store: FakeStore) -> None:
    for topic in range(TOPICS):
        store.tree.put(f"/admin/delete_topics/t{topic}")


def the_requests_are_withdrawn(store: FakeStore) -> None:
    for topic in range(TOPICS):
        store.tree.remove(f"/admin/delete_topics/t{topic}")


@pytest.mark.parametrize(
    ("before", "step", "end", "ruling"),
    [
        (nothing, a_broker_dies, nothing, "broker died: different"),
        (nothing, leaders_move, nothing, f"{UnexplainedKind.LEADER_MOVED.value}: not judged"),
        (leaders_are_gone, unclean_elections_are_allowed, nothing, "unclean elections allowed: different"),
        (nothing, another_controller_elects, nothing, "failover: unclear"),
        (nothing, reassignments_begin, reassignments_end, "reassigned: different"),
        (nothing, deletions_are_asked_for, the_requests_are_withdrawn, "topics deleted: unclear"),
    ],
)
async def test_no_pass_over_the_partitions_blocks_the_event_loop(
    before: Step, step: Step, end: Step, ruling: str
) -> None:
    watched = Watched()
    before(watched.store)
    await watched.observer.observe()

    step(watched.store)
    await watched.observe()
    end(watched.store)
    await watched.observe(30.0)

    assert watched.rulings == {ruling}
    assert watched.watching.total > 4 * LINES_OF_A_SLICE, "the cluster is too small to show anything"
    assert watched.watching.longest[0] < LINES_OF_A_SLICE, watched.watching.longest[1]


async def test_the_end_of_pending_comparisons_does_not_block_it_either() -> None:
    watched = Watched()
    await watched.observer.observe()
    a_broker_dies(watched.store)
    await watched.observer.observe()

    await watched.watching.over(watched.observer.suspend())

    assert watched.rulings == {"broker died: unclear"}
    assert watched.watching.longest[0] < LINES_OF_A_SLICE, watched.watching.longest[1]
