"""Handles requests for partition reassignments, by znode or by an admin client, and completes them (KIP-455)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.reassignment import not_live, target_problem
from controllerd.machines.reassignment.reassigner import RequestedReplicas
from controllerd.machines.recorded import record_refusals
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.reassignments import conclude, expect_completion, serve_requests
from events.reassignments import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ReassignmentRetry,
    ReassignmentsMayComplete,
    ZkPartitionReassignment,
)

log = structlog.get_logger(__name__)

Refusal = tuple[KafkaError, str]


# -- by znode --------------------------------------------------------------------------------------------------------


async def on_zk_reassignment(_event: ZkPartitionReassignment, c: Controller) -> None:
    """Carry out new requests of ``/admin/reassign_partitions``; a reassignment that is under way is left alone."""
    await serve_requests(c, again=False)
    await conclude(c)


# -- by request ------------------------------------------------------------------------------------------------------


async def on_api_reassignment(event: ApiPartitionReassignment, c: Controller) -> Mapping[TopicPartition, KafkaError]:
    """Begin, change or cancel reassignments for an admin client; NONE means that the change was accepted.

    The request overrules requests by znode: their entries for the same partitions are removed.
    """
    wanted: dict[TopicPartition, RequestedReplicas] = {}
    refused: dict[TopicPartition, Refusal] = {}
    live = c.context.live
    async for tp, target in c.outbox.slicer.each(event.targets.items()):
        refusal = _refusal(tp, target, live, c)
        if refusal is None:
            wanted[tp] = target
        else:
            refused[tp] = refusal
    record_refusals(c.audit, "reassignment by request", ((tp, reason) for tp, (_, reason) in refused.items()))
    await c.reassigner.requests.overrule(wanted.keys())
    answers = await c.reassigner.run(wanted)
    await conclude(c)
    return {tp: refused[tp][0] if tp in refused else answers[tp] for tp in event.targets}


def _refusal(
    tp: TopicPartition, target: RequestedReplicas, live: AbstractSet[BrokerId], c: Controller
) -> Refusal | None:
    current = c.context.assignment(tp)
    if target is None:
        return _refusal_to_cancel(tp, current, c)
    problem = target_problem(target)
    if problem is None and (missing := not_live(current, target, live)):
        problem = f"brokers {missing} are not live"
    if problem is not None:
        return KafkaError.INVALID_REPLICA_ASSIGNMENT, problem
    if tp not in c.context:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
    if tp.topic in c.context.queued_for_deletion:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the topic is being deleted"
    return None


def _refusal_to_cancel(tp: TopicPartition, current: ReplicaAssignment, c: Controller) -> Refusal | None:
    """Why a reassignment cannot be cancelled, or None.

    It can be cancelled while a topic deletion waits for it, and then ends that wait. Kafka refuses that.
    """
    if not current.is_being_reassigned:
        return KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "nothing to cancel"
    if tp.topic in c.context.deletions.started:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the topic is being deleted"
    return None


async def on_list_reassignments(
    event: ListPartitionReassignments, c: Controller
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """The reassignments that are under way."""
    wanted = c.context.being_reassigned
    if event.partitions is not None:
        wanted = wanted & event.partitions
    return {tp: c.context.assignment(tp) for tp in sorted(wanted)}


# -- progress --------------------------------------------------------------------------------------------------------


async def on_isr_of_reassignment(
    event: PartitionReassignmentIsrChange | ReassignmentsMayComplete, c: Controller
) -> None:
    """Complete reassignments whose new replicas may have caught up."""
    if isinstance(event, PartitionReassignmentIsrChange):
        expect_completion({event.tp}, c)  # the events of other partitions follow: all of them are read together
        return
    await c.reassigner.complete_ready(event.partitions)
    await conclude(c)


async def on_reassignment_retry(_event: ReassignmentRetry, c: Controller) -> None:
    """Try writes again that ZooKeeper refused a while ago, less and less often, until they succeed.

    Replicas that could not leave their ISRs were not deleted either: brokers are sent their pending deletions.
    """
    await c.reassigner.retry()
    await send_pending_deletions(sorted(c.context.live_or_shutting_down), c)
    await conclude(c)
