"""No read holds the event loop for long: it takes many small steps, and few where nothing is wrong."""

import asyncio
from collections.abc import Sequence

import pytest

from controllerd.pace import Pace
from controllerd.snapshot import ClusterSnapshot, PartitionView
from controllerd.status.counts import PartitionCounter
from controllerd.status.per_topic import AT_ONCE, PerTopic
from controllerd.status.reads.filters import PartitionQuery
from controllerd.status.reads.loads import LoadTally
from controllerd.status.reads.selecting import Selection
from tests.status.fake_controller import FakeController, partition


class CountingPace(Pace):
    """Counts the turns that the event loop could have had."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    async def breathe(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)


def cluster(topics: int, partitions: int) -> ClusterSnapshot:
    """So many topics with so many healthy partitions each."""
    controller = FakeController()
    healthy = tuple(partition(number, 1, (1, 2, 3)) for number in range(partitions))
    for number in range(topics):
        controller.put_topic(f"topic-{number:04}", *healthy)
    return controller.snapshot


@pytest.mark.parametrize(("topics", "partitions"), [(1, 10 * AT_ONCE), (50, 200)])
async def test_counting_gives_the_loop_its_turns(topics: int, partitions: int) -> None:
    pace = CountingPace()

    counts = await PartitionCounter().count(cluster(topics, partitions), pace)

    assert counts.partitions == topics * partitions
    assert pace.turns >= max(topics, topics * partitions // AT_ONCE)


async def test_never_more_than_a_slice_is_measured_at_once() -> None:
    sizes: list[int] = []

    def measure(part: Sequence[PartitionView]) -> int:
        sizes.append(len(part))
        return len(part)

    figures: PerTopic[int] = PerTopic(measure, sum)
    await figures.all(cluster(1, 5 * AT_ONCE + 1))

    assert sizes == [AT_ONCE] * 5 + [1]


async def test_only_topics_that_changed_are_measured_again() -> None:
    snapshot, measured = cluster(20, 3), list[int]()

    def measure(part: Sequence[PartitionView]) -> int:
        measured.append(len(part))
        return len(part)

    figures: PerTopic[int] = PerTopic(measure, sum)
    await figures.all(snapshot)
    measured.clear()

    changed = FakeController()
    changed.put_topic("topic-0003", partition(0, -1, (1,)))
    snapshot.topics |= changed.snapshot.topics
    await figures.all(snapshot)

    assert measured == [1]


@pytest.mark.parametrize(
    "query",
    [
        PartitionQuery(limit=100),
        PartitionQuery(limit=100, on=3),
        PartitionQuery(limit=100, sort="-isr"),
    ],
    ids=["all", "filtered", "sorted"],
)
async def test_a_walk_over_one_huge_topic_gives_the_loop_its_turns(query: PartitionQuery) -> None:
    pace, partitions = CountingPace(), 10 * AT_ONCE

    cut = await Selection(query, PartitionCounter(), pace).cut(cluster(1, partitions), {})

    assert (len(cut.rows), cut.total) == (100, partitions)
    assert pace.turns >= (10 if query.on or query.sort != "topic" else 1)


async def test_topics_without_what_is_looked_for_are_passed_over() -> None:
    snapshot, counter = cluster(100, 50), PartitionCounter()
    await counter.count(snapshot)
    pace = CountingPace()

    cut = await Selection(PartitionQuery(offline=True), counter, pace).cut(snapshot, {})

    assert (cut.rows, pace.turns) == ([], 100)


async def test_a_later_page_begins_where_the_one_before_ended() -> None:
    snapshot = cluster(1, 20 * AT_ONCE)
    first = await Selection(PartitionQuery(limit=5), PartitionCounter(), Pace()).cut(snapshot, {})
    pace = CountingPace()

    second = await Selection(PartitionQuery(limit=5, cursor=first.next_cursor or ""), PartitionCounter(), pace).cut(
        snapshot, {}
    )

    assert [chosen.partition.partition for chosen in second.rows] == [5, 6, 7, 8, 9]
    assert pace.turns <= 3


async def test_loads_are_tallied_in_slices() -> None:
    pace = CountingPace()

    loads = await LoadTally().loads(cluster(3, 2 * AT_ONCE), pace)

    assert {load.replicas for load in loads.values()} == {6 * AT_ONCE}
    assert pace.turns >= 6
