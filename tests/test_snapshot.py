"""The cluster snapshot that readers see after a publication."""

import asyncio

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, PartitionState, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.snapshot import ClusterSnapshot, Publication, publish, view_topic
from controllerd.views import DeletionView
from tests.fakes.world import offline_partitions

TOPIC_ID = "AAAAAAAAQAC-_wAAAAAAAQ"


def image(name: str) -> TopicImage:
    return TopicImage(name, {0: ReplicaAssignment((BrokerId(1),))}, TOPIC_ID, 0)


@pytest.mark.parametrize("number", range(20))
def test_a_topic_id_that_moved_to_another_topic_names_that_one(number: int) -> None:
    """Both topics are published in one go, in any order."""
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    context.put_topic(image("before"))
    publish(context, snapshot)

    context.remove_topic("before")
    context.put_topic(image(f"after{number}"))
    publish(context, snapshot)

    assert snapshot.names_by_id == {TOPIC_ID: f"after{number}"}


def test_readers_see_nothing_of_a_publication_before_all_of_it_is_ready() -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    for name in ("a", "b"):
        context.put_topic(TopicImage(name, {0: ReplicaAssignment((BrokerId(1),))}, None, 0))
    publication = Publication(context)

    seen = []
    while publication.prepare_one():
        seen.append(dict(snapshot.topics))
    publication.show(snapshot)

    assert seen == [{}, {}]
    assert sorted(snapshot.topics) == ["a", "b"]


def test_offline_partitions_are_counted_in_steps() -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    context.put_topic(TopicImage("t", dict.fromkeys(range(2_500), ReplicaAssignment((BrokerId(1),))), None, 0))
    context.move_partitions(list(context.records()), PartitionState.NEW)
    context.move_partitions(list(context.records())[:2_400], PartitionState.OFFLINE)
    publication, steps = Publication(context), 0

    while publication.prepare_one():
        steps += 1
    publication.show(snapshot)

    assert snapshot.offline_partitions == offline_partitions(context) == 2_400
    assert steps == 4, "the topic, and each thousand of those that wait"


def test_partitions_come_in_the_order_of_their_numbers() -> None:
    context = ControllerContext()
    context.put_topic(TopicImage("t", dict.fromkeys((2, 0, 1), ReplicaAssignment((BrokerId(1),))), None, 0))

    assert [view.partition for view in view_topic(context, "t").partitions] == [0, 1, 2]


def test_readers_see_the_deletion_of_a_topic_until_it_is_gone() -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    context.put_topic(image("t"))
    context.deletions.queue("t")
    context.deletions.halt("t", "waits")
    publish(context, snapshot)
    assert snapshot.deletions == {"t": DeletionView(has_begun=False, held_up_by="waits", deleting=())}

    context.remove_topic("t")
    publish(context, snapshot)

    assert snapshot.deletions == {}


def test_readers_see_how_many_replicas_brokers_still_have_to_delete() -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    context.pending_deletions.set(BrokerId(3), {TopicPartition("t", 0): None, TopicPartition("t", 1): None})

    publish(context, snapshot)

    assert snapshot.pending_deletions == {3: 2}


async def test_a_task_that_waits_for_the_next_version_sees_it() -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    waiting = [asyncio.create_task(snapshot.next_version()) for _ in range(2)]
    await asyncio.sleep(0)

    context.put_topic(image("t"))
    publish(context, snapshot)
    await asyncio.gather(*waiting)

    assert (snapshot.version, list(snapshot.topics)) == (1, ["t"])


async def test_a_cancelled_wait_does_not_disturb_the_next_publication() -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await snapshot.next_version()

    publish(context, snapshot)

    assert snapshot.version == 1


@pytest.mark.parametrize(("number", "found"), [(0, 0), (1, None), (7, 7), (8, None), (-1, None)])
def test_a_partition_is_found_by_its_number_where_numbers_are_missing(number: int, found: int | None) -> None:
    context, snapshot = ControllerContext(), ClusterSnapshot(2_000_000_000)
    assignment = ReplicaAssignment((BrokerId(1),))
    context.put_topic(TopicImage("t", {7: assignment, 0: assignment, 3: assignment}, TOPIC_ID, 0))
    publish(context, snapshot)

    view = snapshot.partition(TopicPartition("t", number))

    assert (view.partition if view is not None else None) == found
