"""The reassignment of a single partition, and its cancellation: forecast, progress and outcome. Pure."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.core.reassignment import not_live, target_problem
from controllerd.planning.plans import PartitionOutcome, Replicas, failed, listed
from controllerd.views import ClusterView, PartitionView


def foresee_move(cluster: ClusterView, tp: TopicPartition, target: Replicas) -> PartitionOutcome:
    """Forecast the decision of the controller on a reassignment to these replicas."""
    view = cluster.partition(tp)
    if view is None:
        return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    if cluster.is_being_deleted(tp.topic):
        return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the topic is being deleted")
    current = view.assignment
    problem = target_problem(target)
    if problem is None and (missing := not_live(current, target, cluster.staying)):
        problem = f"brokers {listed(missing)} are not live"
    if problem is not None:
        return failed(KafkaError.INVALID_REPLICA_ASSIGNMENT, problem)
    if current.replicas == target and not current.is_being_reassigned:
        return PartitionOutcome("not-needed", f"its replicas are {listed(target)} already")
    under_way = f" (on its way to {listed(current.target)})" if current.is_being_reassigned else ""
    return PartitionOutcome("planned", f"{listed(current.origin)}{under_way} -> {listed(target)}")


def progress_of_move(view: PartitionView | None, target: Replicas) -> PartitionOutcome:
    """Return the progress of a partition on its way to these replicas. ``view``: None once it was deleted."""
    if view is None:
        return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition was deleted meanwhile")
    current = view.assignment
    if not current.is_being_reassigned:
        if current.replicas == target:
            return PartitionOutcome("done", f"its replicas are {listed(target)}")
        now = f"it was cancelled or replaced by another request: its replicas are {listed(current.replicas)}"
        return PartitionOutcome("failed", now)
    if current.target != target:
        other = f"another request replaced it: it moves to {listed(current.target)}"
        return PartitionOutcome("failed", other)
    missing = [broker for broker in target if broker not in view.isr]
    waits = f"; {listed(missing)} must catch up" if missing else ""
    return PartitionOutcome("running", f"ISR {listed(view.isr)} of {listed(target)}{waits}")


def outcome_of_refusal(
    cluster: ClusterView, tp: TopicPartition, target: Replicas, error: KafkaError
) -> PartitionOutcome:
    """Explain the refusal of a planned move: the cluster changed meanwhile, or the partition could not be led."""
    outcome = foresee_move(cluster, tp, target)
    return outcome if outcome.state == "failed" else failed(error, _loss(error))


def foresee_cancellation(view: PartitionView | None) -> PartitionOutcome:
    """Forecast the replicas after a cancellation. ``view``: None if the partition does not exist."""
    if view is None:
        return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    if not view.assignment.is_being_reassigned:
        return failed(KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "it is not being reassigned")
    return PartitionOutcome("planned", f"{listed(view.assignment.target)} -> back to {listed(view.assignment.origin)}")


def outcome_of_cancellation(view: PartitionView | None, error: KafkaError) -> PartitionOutcome:
    """Return the outcome of a cancellation by the answer of the controller."""
    if error is KafkaError.NONE and view is not None:
        return PartitionOutcome("done", f"its replicas are {listed(view.assignment.replicas)}")
    return failed(error, _loss(error) or "it ended, or its topic is being deleted")


def _loss(error: KafkaError) -> str:
    if error is KafkaError.INVALID_REPLICA_ASSIGNMENT:
        return "the replicas that would remain could not lead the partition"
    return ""
