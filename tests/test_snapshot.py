"""What readers see after a publication."""

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicImage
from controllerd.snapshot import ClusterSnapshot, Publication, publish, view_topic

TOPIC_ID = "AAAAAAAAQAC-_wAAAAAAAQ"


def image(name: str) -> TopicImage:
    return TopicImage(name, {0: ReplicaAssignment((BrokerId(1),))}, TOPIC_ID, 0)


@pytest.mark.parametrize("number", range(20))
def test_a_topic_id_that_went_to_another_topic_leads_to_that_one(number: int) -> None:
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


def test_partitions_come_in_the_order_of_their_numbers() -> None:
    context = ControllerContext()
    context.put_topic(TopicImage("t", dict.fromkeys((2, 0, 1), ReplicaAssignment((BrokerId(1),))), None, 0))

    assert [view.partition for view in view_topic(context, "t").partitions] == [0, 1, 2]
