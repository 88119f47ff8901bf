"""The reassignment of one partition: forecast, progress and outcome, from given views."""

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.planning.moves import (
    foresee_cancellation,
    foresee_move,
    outcome_of_cancellation,
    outcome_of_refusal,
    progress_of_move,
)
from controllerd.planning.plans import PartitionOutcome, Replicas
from controllerd.views import ClusterView, DeletionView, PartitionView, TopicView

TP = TopicPartition("t", 0)


def brokers(*ids: int) -> Replicas:
    return tuple(map(BrokerId, ids))


def view(*replicas: int, adding: Replicas = (), removing: Replicas = (), isr: Replicas = ()) -> PartitionView:
    """One partition on these replicas; the first member of the ISR leads, if there is one."""
    assignment = ReplicaAssignment(brokers(*replicas), adding, removing)
    leadership = LeaderAndIsr(isr[0], 1, isr, 1, 1) if isr else None
    return PartitionView(0, PartitionState.ONLINE, assignment, leadership, ())


def cluster(one: PartitionView, deletion: DeletionView | None = None) -> ClusterView:
    """Brokers 1 to 4, of which 4 is shutting down, and one partition."""
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
        (brokers(2, 3), PartitionOutcome("planned", "[1, 2] -> [2, 3]")),
        (brokers(1, 2), PartitionOutcome("not-needed", "its replicas are [1, 2] already")),
        (brokers(1, 4), PartitionOutcome("failed", "brokers [4] are not live", KafkaError.INVALID_REPLICA_ASSIGNMENT)),
        (brokers(1, 9), PartitionOutcome("failed", "brokers [9] are not live", KafkaError.INVALID_REPLICA_ASSIGNMENT)),
    ],
)
def test_the_forecast_is_the_decision_of_the_controller(target: Replicas, outcome: PartitionOutcome) -> None:
    assert foresee_move(cluster(view(1, 2)), TP, target) == outcome


def test_the_forecast_for_a_moving_partition_names_its_present_target() -> None:
    assert foresee_move(cluster(MOVING), TP, brokers(1, 2)).detail == "[1, 2] (on its way to [2, 3]) -> [1, 2]"


def test_a_partition_that_is_absent_or_being_deleted_cannot_be_moved() -> None:
    deleted = cluster(view(1), DeletionView(has_begun=True, held_up_by=None, deleting=()))

    assert foresee_move(ClusterView(1), TP, brokers(1)).detail == "the partition does not exist"
    assert foresee_move(deleted, TP, brokers(2)).detail == "the topic is being deleted"


@pytest.mark.parametrize(
    ("now", "state", "detail"),
    [
        (MOVING, "running", "ISR [1, 2] of [2, 3]; [3] must catch up"),
        (view(2, 3), "done", "its replicas are [2, 3]"),
        (view(1, 2), "failed", "it was cancelled or replaced by another request: its replicas are [1, 2]"),
        (
            view(1, 2, 4, adding=brokers(4), removing=brokers(2)),
            "failed",
            "another request replaced it: it moves to [1, 4]",
        ),
        (None, "failed", "the partition was deleted meanwhile"),
    ],
)
def test_the_progress_of_a_move_shows_in_the_view(now: PartitionView | None, state: str, detail: str) -> None:
    assert progress_of_move(now, brokers(2, 3))[:2] == (state, detail)


def test_a_refusal_is_explained_by_a_change_or_by_the_loss_of_the_partition() -> None:
    refusal, steady = KafkaError.INVALID_REPLICA_ASSIGNMENT, cluster(view(1, 2))

    assert outcome_of_refusal(steady, TP, brokers(9), refusal).detail == "brokers [9] are not live"
    assert "could not lead the partition" in outcome_of_refusal(steady, TP, brokers(3), refusal).detail


def test_a_cancellation_goes_back_to_the_original_replicas() -> None:
    assert foresee_cancellation(MOVING) == PartitionOutcome("planned", "[2, 3] -> back to [1, 2]")
    assert foresee_cancellation(view(1)).error is KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    assert foresee_cancellation(None).error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_the_outcome_of_a_cancellation_follows_from_the_answer_and_the_view() -> None:
    ended = "it ended, or its topic is being deleted"

    assert outcome_of_cancellation(view(1, 2), KafkaError.NONE) == PartitionOutcome("done", "its replicas are [1, 2]")
    assert outcome_of_cancellation(None, KafkaError.NONE).detail == ended
    assert outcome_of_cancellation(view(1), KafkaError.NO_REASSIGNMENT_IN_PROGRESS).detail == ended
