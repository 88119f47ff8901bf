"""Reads take many small steps, so that the event loop runs in between, and few steps in a healthy cluster."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.slicer import Slicer
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.reads.brokers import ReplicaQuery, ReplicaSelection
from controllerd.status.reads.context import ReadContext
from controllerd.status.reads.counts import AT_ONCE, Counts, TopicFigures, count_partitions
from controllerd.status.reads.filters import PartitionQuery, PartitionSelection, known_number, matching, predicates_of
from controllerd.views import PartitionView
from tests.status.fake_controller import FakeController, partition


class CountingSlicer(Slicer):
    """Counts the points where the event loop may run."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    async def yield_to_loop(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)


def context() -> ReadContext:
    """The figures of an instance that has measured nothing yet."""
    return ReadContext(FakeController().sources())


def cluster(topics: int, partitions: int) -> ClusterSnapshot:
    """A cluster with this number of topics, and of healthy partitions in each."""
    controller = FakeController()
    healthy = tuple(partition(number, 1, (1, 2, 3)) for number in range(partitions))
    for number in range(topics):
        controller.put_topic(f"topic-{number:04}", *healthy)
    return controller.snapshot


@pytest.mark.parametrize(("topics", "partitions"), [(1, 10 * AT_ONCE), (50, 200)])
async def test_the_event_loop_runs_between_slices_of_a_count(topics: int, partitions: int) -> None:
    slicer = CountingSlicer()

    counts = await context().counts.total(cluster(topics, partitions), slicer)

    assert counts.partitions == topics * partitions
    assert slicer.turns >= max(topics, topics * partitions // AT_ONCE)


async def test_at_most_one_slice_is_measured_at_once() -> None:
    sizes: list[int] = []

    def measure(part: Sequence[PartitionView]) -> int:
        sizes.append(len(part))
        return len(part)

    figures: TopicFigures[int] = TopicFigures(measure, sum)
    await figures.all(cluster(1, 5 * AT_ONCE + 1))

    assert sizes == [AT_ONCE] * 5 + [1]


async def test_only_topics_that_changed_are_measured_again() -> None:
    snapshot, measured = cluster(20, 3), list[int]()

    def measure(part: Sequence[PartitionView]) -> int:
        measured.append(len(part))
        return len(part)

    figures: TopicFigures[int] = TopicFigures(measure, sum)
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
async def test_the_event_loop_runs_between_slices_of_one_huge_topic(query: PartitionQuery) -> None:
    slicer, partitions = CountingSlicer(), 10 * AT_ONCE

    cut = await PartitionSelection(query, context().counts, slicer).cut(cluster(1, partitions), {})

    assert (len(cut.rows), cut.total) == (100, partitions)
    assert slicer.turns >= (10 if query.on or query.sort != "topic" else 1)


async def test_topics_without_matching_partitions_are_skipped() -> None:
    snapshot, counts = cluster(100, 50), context().counts
    await counts.total(snapshot)
    slicer = CountingSlicer()

    cut = await PartitionSelection(PartitionQuery(offline=True), counts, slicer).cut(snapshot, {})

    assert (cut.rows, slicer.turns) == ([], 100)


async def test_a_later_page_begins_where_the_one_before_ended() -> None:
    snapshot = cluster(1, 20 * AT_ONCE)
    first = await PartitionSelection(PartitionQuery(limit=5), context().counts, Slicer()).cut(snapshot, {})
    slicer = CountingSlicer()

    second = await PartitionSelection(
        PartitionQuery(limit=5, cursor=first.next_cursor or ""), context().counts, slicer
    ).cut(snapshot, {})

    assert [chosen.partition.partition for chosen in second.rows] == [5, 6, 7, 8, 9]
    assert slicer.turns <= 3


async def test_loads_are_measured_in_slices() -> None:
    slicer = CountingSlicer()

    loads = await context().loads.total(cluster(3, 2 * AT_ONCE), slicer)

    assert {load.replicas for load in loads.values()} == {6 * AT_ONCE}
    assert slicer.turns >= 6


async def test_replicas_on_other_pages_are_counted_by_topic_without_a_search() -> None:
    controller = FakeController()
    healthy = tuple(partition(number, 1, (1, 2, 3)) for number in range(100))
    for number in range(50):
        controller.put_topic(f"topic-{number:04}", *healthy)
    loads, slicer = context().loads, CountingSlicer()
    await loads.total(controller.snapshot, CountingSlicer())

    cut = await ReplicaSelection(ReplicaQuery(limit=10), loads, slicer).cut(controller.snapshot)

    assert (len(cut.rows), cut.total) == (10, 50 * 300)
    assert slicer.turns == 51  # one for each topic, and one for the page


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", ["offline", "waiting", "under_replicated", "non_preferred", "reassigning"])
async def test_a_known_number_equals_the_number_of_matching_partitions(name: str, value: bool) -> None:
    controller = FakeController()
    every = [partition(n, n % 4 - 1, (1, 2)[: n % 3], (1, 2)) for n in range(50)]
    controller.put_topic("mixed", *every, new_partition(50), moving_partition(51))
    view = controller.snapshot.topics["mixed"]
    query = msgspec.convert({name: value}, PartitionQuery)

    known = known_number(query, count_partitions(view.partitions))

    assert known == len(matching(view.partitions, predicates_of(query, None)))


def test_the_number_for_two_filters_is_not_known() -> None:
    counts = Counts(partitions=9, offline=2, under_replicated=3)

    assert known_number(PartitionQuery(offline=True, under_replicated=True), counts) is None
    assert known_number(PartitionQuery(offline=True, on=3), counts) is None
    assert known_number(PartitionQuery(reassigning=True, on=3), counts) == 0


async def test_simultaneous_callers_measure_once() -> None:
    measured: list[int] = []

    def measure(part: Sequence[PartitionView]) -> int:
        measured.append(len(part))
        return len(part)

    figures: TopicFigures[int] = TopicFigures(measure, sum)
    snapshot = cluster(3, 2 * AT_ONCE)

    await asyncio.gather(*(figures.all(snapshot, CountingSlicer()) for _ in range(4)))

    assert measured == [AT_ONCE] * 6


def new_partition(number: int) -> PartitionView:
    """A partition that waits for its first leader."""
    return PartitionView(number, PartitionState.NEW, ReplicaAssignment((BrokerId(1),)), None, ())


def moving_partition(number: int) -> PartitionView:
    """A partition that moves from broker 1 to broker 3."""
    one, two, three = map(BrokerId, (1, 2, 3))
    assignment = ReplicaAssignment((three, one, two), adding=(three,), removing=(one,))
    return PartitionView(number, PartitionState.ONLINE, assignment, LeaderAndIsr(one, 0, (one, two), 1, 0), ())
