"""What readers see after a publication."""

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicImage
from controllerd.snapshot import ClusterSnapshot, publish

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
