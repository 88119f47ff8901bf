"""The move of a single partition, or its cancellation: foreseen, followed, and judged by the answer. Pure."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.reassignment import not_live, target_problem
from controllerd.planning.plans import Outcome, failed, listed
from controllerd.views import ClusterView, PartitionView

Replicas = tuple[BrokerId, ...]


def foresee_move(cluster: ClusterView, tp: TopicPartition, target: Replicas) -> Outcome:
    """Foresee what the controller would do if these replicas were asked for."""
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
        return Outcome("not-needed", f"its replicas are {listed(target)} already")
    under_way = f" (on its way to {listed(current.target)})" if current.is_being_reassigned else ""
    return Outcome("planned", f"{listed(current.origin)}{under_way} -> {listed(target)}")


def progress_of_move(view: PartitionView | None, target: Replicas) -> Outcome:
    """Judge how far a partition has come on its way to these replicas. ``view``: None once it was deleted."""
    if view is None:
        return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition was deleted meanwhile")
    current = view.assignment
    if not current.is_being_reassigned:
        if current.replicas == target:
            return Outcome("done", f"its replicas are {listed(target)}")
        now = f"somebody cancelled it or asked for something else: its replicas are {listed(current.replicas)}"
        return Outcome("failed", now)
    if current.target != target:
        other = f"somebody asked for something else meanwhile: it moves to {listed(current.target)}"
        return Outcome("failed", other)
    missing = [broker for broker in target if broker not in view.isr]
    waits = f"; {listed(missing)} must catch up" if missing else ""
    return Outcome("running", f"ISR {listed(view.isr)} of {listed(target)}{waits}")


def outcome_of_refusal(cluster: ClusterView, tp: TopicPartition, target: Replicas, error: KafkaError) -> Outcome:
    """Explain why the controller refused a planned move: things changed meanwhile, or it would lose the partition."""
    outcome = foresee_move(cluster, tp, target)
    return outcome if outcome.state == "failed" else failed(error, _loss(error))


def foresee_cancellation(view: PartitionView | None) -> Outcome:
    """Foresee where a partition goes back to. ``view``: None if it does not exist."""
    if view is None:
        return failed(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    if not view.assignment.is_being_reassigned:
        return failed(KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "it is not being reassigned")
    return Outcome("planned", f"{listed(view.assignment.target)} -> back to {listed(view.assignment.origin)}")


def outcome_of_cancellation(view: PartitionView | None, error: KafkaError) -> Outcome:
    """Judge the controller's answer to a cancellation."""
    if error is KafkaError.NONE and view is not None:
        return Outcome("done", f"its replicas are {listed(view.assignment.replicas)}")
    return failed(error, _loss(error) or "it ended, or its topic is being deleted")


def _loss(error: KafkaError) -> str:
    if error is KafkaError.INVALID_REPLICA_ASSIGNMENT:
        return "the replicas that would remain could not lead the partition"
    return ""
