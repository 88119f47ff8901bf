"""The cost of an answer in a large cluster: counted in turns of the event loop and in seconds of the processor."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from controllerd.clock import SystemClock
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.explain.answers import Why
from controllerd.explain.history import Steps
from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.partition import explain_partition
from controllerd.explain.topic import explain_topic
from controllerd.recent import Recent
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import MAX_ROWS, LeadershipRecord
from controllerd.slicer import Slicer
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView, Role, TopicView

TOPICS: Final = 100
PARTITIONS: Final = 1_000
ROWS: Final = 400_000


def view(number: int) -> PartitionView:
    """A partition that its second replica leads, so that its imbalance is counted."""
    replicas = tuple(BrokerId((number + at) % 12) for at in range(3))
    leadership = LeaderAndIsr(replicas[1], 1, replicas, 1, 1)
    return PartitionView(number, PartitionState.ONLINE, ReplicaAssignment(replicas), leadership, ())


def big() -> ClusterSnapshot:
    """100,000 partitions."""
    snapshot, views = ClusterSnapshot(1, role=Role.ACTIVE), tuple(map(view, range(PARTITIONS)))
    snapshot.topics.update({f"topic-{at}": TopicView(f"topic-{at}", None, views) for at in range(TOPICS)})
    return snapshot


def busy() -> Sequence[RecentRecord]:
    """As many recent leaderships as are kept."""
    recent = Recent(SystemClock())
    for at in range(ROWS // MAX_ROWS):
        partitions = [number % PARTITIONS for number in range(MAX_ROWS)]
        topics = [f"topic-{(at * MAX_ROWS + number) // PARTITIONS % TOPICS}" for number in range(MAX_ROWS)]
        numbers = [1] * MAX_ROWS
        recent.record(
            LeadershipRecord(topics, partitions, numbers, numbers, [[1, 2]] * MAX_ROWS, numbers, numbers, numbers)
        )
    return tuple(recent.newest_first())


async def count_turns() -> int:
    """Count the turns of the event loop until cancelled."""
    turns = 0
    try:
        while True:
            await asyncio.sleep(0)
            turns += 1
    except asyncio.CancelledError:
        return turns


async def cost_of(steps: Steps[Why]) -> tuple[Why, float, int]:
    """The answer, the seconds of the processor it took, and the turns of the loop meanwhile."""
    counting = asyncio.create_task(count_turns())
    await asyncio.sleep(0)
    before = time.process_time()
    why = await Slicer().run(steps)
    spent = time.process_time() - before
    counting.cancel()
    return why, spent, await counting


async def test_a_partition_among_100_000_is_cheap_to_explain() -> None:
    inputs = ExplanationInputs(snapshot=big(), now_ms=0, entries=busy())

    why, spent, _ = await cost_of(explain_partition(inputs, TopicPartition("topic-50", 500)))

    assert why.condition == "non-preferred"
    assert spent < 0.15  # a fraction of that on an idle machine


async def test_a_topic_of_10_000_partitions_is_explained_in_slices() -> None:
    snapshot = big()
    snapshot.topics["huge"] = TopicView("huge", None, tuple(map(view, range(10_000))))
    inputs = ExplanationInputs(snapshot=snapshot, now_ms=0, entries=busy())

    why, spent, turns = await cost_of(explain_topic(inputs, "huge"))

    assert why.condition == "non-preferred"
    assert spent < 0.6  # a fraction of that on an idle machine
    assert turns >= 2
