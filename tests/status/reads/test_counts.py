"""Counts of all partitions; only topics that changed are counted again."""

from collections.abc import Iterable

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.reads.counts import Counts, TopicFigures, add_counts, count_partitions, is_under_replicated
from controllerd.views import PartitionView
from tests.status.fake_controller import FakeController, partition


def figures() -> TopicFigures[Counts]:
    return TopicFigures(count_partitions, add_counts)


async def test_an_empty_cluster_counts_nothing() -> None:
    assert await figures().total(ClusterSnapshot(1)) == Counts()


async def test_all_topics_are_added_up() -> None:
    controller = FakeController()
    controller.lead(5)

    counts = await figures().total(controller.snapshot)

    assert counts == Counts(partitions=4, under_replicated=2, non_preferred=2, offline=1, led=4, replication_factor=3)


async def test_a_changed_topic_changes_the_counts() -> None:
    controller, counts = FakeController(), figures()
    controller.put_topic("orders", partition(0, 1, (1,)))
    assert (await counts.total(controller.snapshot)).under_replicated == 1

    controller.put_topic("orders", partition(0, 1, (1, 2, 3)))

    assert (await counts.total(controller.snapshot)).under_replicated == 0


async def test_a_deleted_topic_no_longer_counts() -> None:
    controller, counts = FakeController(), figures()
    controller.put_topic("orders", partition(0, 1, (1,)))
    await counts.total(controller.snapshot)

    del controller.snapshot.topics["orders"]
    controller.snapshot.version += 1

    assert await counts.total(controller.snapshot) == Counts()


def moving() -> PartitionView:
    """A partition to which broker 3 is being added."""
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    assignment = ReplicaAssignment((three, one, two), adding=(three,), removing=(one,))
    return PartitionView(0, PartitionState.ONLINE, assignment, LeaderAndIsr(one, 0, (one, two), 1, 0), ())


def test_replicas_that_are_being_added_do_not_make_a_partition_under_replicated() -> None:
    assert not is_under_replicated(moving())


def test_a_partition_that_moves_is_counted_as_reassigning() -> None:
    assert count_partitions([moving()]) == Counts(partitions=1, reassigning=1, led=1, replication_factor=3)


async def test_a_partition_without_a_state_is_waiting_and_nothing_else() -> None:
    waiting = PartitionView(0, PartitionState.NEW, ReplicaAssignment((BrokerId(1),)), None, ())
    controller = FakeController()
    controller.put_topic("new", waiting)

    counts = await figures().total(controller.snapshot)

    assert counts == Counts(partitions=1, waiting=1, replication_factor=1)


def test_an_offline_partition_is_not_led_by_its_preferred_replica() -> None:
    assert is_imbalanced(partition(0, -1, (1,)))


def test_the_counts_of_parts_add_up_to_the_counts_of_the_topic() -> None:
    partitions = [partition(number, number % 3 - 1, (1,), (1, 2)) for number in range(10)]
    parts: Iterable[Counts] = (count_partitions(partitions[:3]), count_partitions(partitions[3:]))

    assert add_counts(parts) == count_partitions(partitions)
