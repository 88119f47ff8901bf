"""The move of one partition, foreseen and followed, on views made by hand."""

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.planning.moves import (
    Replicas,
    foresee_cancellation,
    foresee_move,
    outcome_of_cancellation,
    outcome_of_refusal,
    progress_of_move,
)
from controllerd.planning.plans import Outcome
from controllerd.views import ClusterView, DeletionView, PartitionView, TopicView

TP = TopicPartition("t", 0)


def brokers(*ids: int) -> Replicas:
    return tuple(map(BrokerId, ids))


def view(*replicas: int, adding: Replicas = (), removing: Replicas = (), isr: Replicas = ()) -> PartitionView:
    """One partition on these replicas; with an ISR the first of it leads."""
    assignment = ReplicaAssignment(brokers(*replicas), adding, removing)
    leadership = LeaderAndIsr(isr[0], 1, isr, 1, 1) if isr else None
    return PartitionView(0, PartitionState.ONLINE, assignment, leadership, ())


def cluster(one: PartitionView, deletion: DeletionView | None = None) -> ClusterView:
    """Brokers 1 to 4, of which 4 shuts down, and one partition."""
    known = ClusterView(1, shutting_down=frozenset(brokers(4)))
    known.brokers = {broker: Broker(broker, 1, ()) for broker in brokers(1, 2, 3, 4)}
    known.topics["t"] = TopicView("t", None, (one,), deletion)
    if deletion is not None:
        known.deletions["t"] = deletion
    return known


MOVING = view(1, 2, 3, adding=brokers(3), removing=brokers(1), isr=brokers(1, 2))


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        (brokers(2, 3), Outcome("planned", "[1, 2] -> [2, 3]")),
        (brokers(1, 2), Outcome("not-needed", "its replicas are [1, 2] already")),
        (brokers(1, 4), Outcome("failed", "brokers [4] are not live", KafkaError.INVALID_REPLICA_ASSIGNMENT)),
        (brokers(1, 9), Outcome("failed", "brokers [9] are not live", KafkaError.INVALID_REPLICA_ASSIGNMENT)),
    ],
)
def test_a_move_is_foreseen_as_the_controller_would_decide(target: Replicas, outcome: Outcome) -> None:
    assert foresee_move(cluster(view(1, 2)), TP, target) == outcome


def test_a_move_of_a_partition_on_its_way_says_where_to() -> None:
    assert foresee_move(cluster(MOVING), TP, brokers(1, 2)).detail == "[1, 2] (on its way to [2, 3]) -> [1, 2]"


def test_what_does_not_exist_or_is_deleted_cannot_be_moved() -> None:
    deleted = cluster(view(1), DeletionView(has_begun=True, held_up_by=None, deleting=()))

    assert foresee_move(ClusterView(1), TP, brokers(1)).detail == "the partition does not exist"
    assert foresee_move(deleted, TP, brokers(2)).detail == "the topic is being deleted"


@pytest.mark.parametrize(
    ("now", "state", "detail"),
    [
        (MOVING, "running", "ISR [1, 2] of [2, 3]; [3] must catch up"),
        (view(2, 3), "done", "its replicas are [2, 3]"),
        (view(1, 2), "failed", "somebody cancelled it or asked for something else: its replicas are [1, 2]"),
        (
            view(1, 2, 4, adding=brokers(4), removing=brokers(2)),
            "failed",
            "somebody asked for something else meanwhile: it moves to [1, 4]",
        ),
        (None, "failed", "the partition was deleted meanwhile"),
    ],
)
def test_the_progress_of_a_move_shows_in_the_view(now: PartitionView | None, state: str, detail: str) -> None:
    assert progress_of_move(now, brokers(2, 3))[:2] == (state, detail)


def test_a_refused_move_says_what_has_changed_or_else_what_would_be_lost() -> None:
    refusal, steady = KafkaError.INVALID_REPLICA_ASSIGNMENT, cluster(view(1, 2))

    assert outcome_of_refusal(steady, TP, brokers(9), refusal).detail == "brokers [9] are not live"
    assert "could not lead the partition" in outcome_of_refusal(steady, TP, brokers(3), refusal).detail


def test_a_cancellation_goes_back_to_where_the_partition_was() -> None:
    assert foresee_cancellation(MOVING) == Outcome("planned", "[2, 3] -> back to [1, 2]")
    assert foresee_cancellation(view(1)).error is KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    assert foresee_cancellation(None).error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_the_answer_to_a_cancellation_is_judged_with_the_view() -> None:
    ended = "it ended, or its topic is being deleted"

    assert outcome_of_cancellation(view(1, 2), KafkaError.NONE) == Outcome("done", "its replicas are [1, 2]")
    assert outcome_of_cancellation(None, KafkaError.NONE).detail == ended
    assert outcome_of_cancellation(view(1), KafkaError.NO_REASSIGNMENT_IN_PROGRESS).detail == ended
