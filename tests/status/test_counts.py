"""Counts over all partitions: right, and only recounted where a topic changed."""

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.snapshot import ClusterSnapshot, PartitionView
from controllerd.status.counts import Counts, PartitionCounter, is_non_preferred, is_under_replicated
from tests.status.fake_controller import FakeController, partition


def test_an_empty_cluster_counts_nothing() -> None:
    assert PartitionCounter().count(ClusterSnapshot(1)) == Counts()


def test_all_topics_are_added_up() -> None:
    controller = FakeController()
    controller.lead(5)

    counts = PartitionCounter().count(controller.snapshot)

    assert counts == Counts(partitions=4, under_replicated=2, non_preferred=2, waiting=0)


def test_a_changed_topic_changes_the_counts() -> None:
    controller, counter = FakeController(), PartitionCounter()
    controller.put_topic("orders", partition(0, 1, (1,)))
    assert counter.count(controller.snapshot).under_replicated == 1

    controller.put_topic("orders", partition(0, 1, (1, 2, 3)))

    assert counter.count(controller.snapshot).under_replicated == 0


def test_a_deleted_topic_no_longer_counts() -> None:
    controller, counter = FakeController(), PartitionCounter()
    controller.put_topic("orders", partition(0, 1, (1,)))
    counter.count(controller.snapshot)

    del controller.snapshot.topics["orders"]
    controller.snapshot.version += 1

    assert counter.count(controller.snapshot) == Counts()


def test_replicas_that_are_being_added_do_not_make_a_partition_under_replicated() -> None:
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    moving = PartitionView(
        0,
        PartitionState.ONLINE,
        ReplicaAssignment((three, one, two), adding=(three,), removing=(one,)),
        LeaderAndIsr(one, 0, (one, two), 1, 0),
        (),
    )

    assert not is_under_replicated(moving)


def test_a_partition_without_a_state_is_waiting_and_nothing_else() -> None:
    waiting = PartitionView(0, PartitionState.NEW, ReplicaAssignment((BrokerId(1),)), None, ())
    controller = FakeController()
    controller.put_topic("new", waiting)

    assert PartitionCounter().count(controller.snapshot) == Counts(partitions=1, waiting=1)


def test_an_offline_partition_is_not_led_by_its_preferred_replica() -> None:
    assert is_non_preferred(partition(0, -1, (1,)))


async def test_counts_that_were_prepared_are_those_of_the_snapshot() -> None:
    controller, counter = FakeController(), PartitionCounter()
    controller.lead(5)

    await counter.prepare(controller.snapshot)

    assert counter.count(controller.snapshot) == PartitionCounter().count(controller.snapshot)
