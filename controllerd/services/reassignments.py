"""Serves requests for partition reassignments by znode, and resumes, follows and concludes reassignments (KIP-455)."""

from collections.abc import Collection, Iterable, Mapping

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, ReplicaState, TopicImage, TopicPartition
from controllerd.core.reassignment import target_problem
from controllerd.core.records import PartitionRecord
from controllerd.core.sanitizer import names_us
from controllerd.core.soundness import assignment_flaw
from controllerd.machines.reassignment.reassigner import RequestedReplicas
from controllerd.machines.reassignment.requests import Brokers
from controllerd.machines.recorded import record_refusals
from events.reassignments import (
    ReassignmentRetry,
    ReassignmentsMayComplete,
)


async def initialise_reassignments(c: Controller) -> None:
    """At the start of a term: carry out the requests of the znode, then resume the other reassignments."""
    c.reassigner.begin_term()
    await c.reassigner.remove_unassigned_isr_members()
    served = await serve_requests(c, again=True)
    await c.reassigner.resume(sorted(c.context.being_reassigned - served))
    await conclude(c)


async def resume_reassignments_to(brokers: Iterable[BrokerId], c: Controller) -> None:
    """Resume the reassignments that wait for one of these brokers, which have registered again."""
    back = set(brokers)
    await resume([tp for tp in c.context.being_reassigned if not back.isdisjoint(c.context.assignment(tp).target)], c)


def additions_to(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """Return the reassigning partitions of which the broker may not know that it gets a new replica.

    Call this before the replicas of the broker are started, because that changes the states which it looks at.
    """
    return [tp for tp in c.context.being_reassigned if _may_be_unknown_to(c.context.record(tp), broker)]


def _may_be_unknown_to(record: PartitionRecord, broker: BrokerId) -> bool:
    """Whether the broker may not know the replica: it is being added, or it is in the target and still New.

    The second holds if a later request overruled the one that added the replica, and its target has the replica, too.
    """
    is_new = record.replica_states[broker] is ReplicaState.NEW
    return broker in record.assignment.adding or (is_new and broker in record.assignment.target)


async def resume(partitions: Collection[TopicPartition], c: Controller) -> None:
    """Resume these reassignments."""
    if partitions:
        await c.reassigner.resume(sorted(partitions))
        await conclude(c)


async def serve_requests(c: Controller, *, again: bool) -> set[TopicPartition]:
    """Carry out the requests of the znode; returns the partitions whose request was accepted.

    ``again``: also carry out requests whose reassignment is under way already. Every entry is removed at some time
    (KAFKA-9478): one that is refused or fails is removed here, any other when its reassignment is done.
    """
    read = await c.reassigner.requests.read()
    if read is None:
        return set()
    wanted: dict[TopicPartition, RequestedReplicas] = {}
    refused: dict[TopicPartition, str] = {}
    async for tp, target in c.outbox.slicer.each(read.targets.items()):
        problem = _problem_of_entry(tp, target, c)
        if problem is not None:
            refused[tp] = problem
        elif again or not _is_under_way(tp, target, c):
            wanted[tp] = target
    record_refusals(c.audit, "reassignment by znode", refused.items())
    answers = await c.reassigner.run(wanted)
    failed = {tp: wanted[tp] or () for tp, error in answers.items() if error is not KafkaError.NONE}
    over = {tp: read.targets[tp] for tp in (*refused, *failed)}
    if over or not read.targets:  # a znode without entries is deleted
        await c.reassigner.requests.finish(over)
    return wanted.keys() - failed.keys()


def _problem_of_entry(tp: TopicPartition, target: Brokers, c: Controller) -> str | None:
    """Why an entry is refused, or None. A broker of the target need not be live: it may register later."""
    if tp not in c.context:
        return "the partition does not exist"
    if tp.topic in c.context.queued_for_deletion:
        return "the topic is being deleted"
    current = c.context.assignment(tp)
    if not current.is_being_reassigned and current.replicas == target:
        return "nothing would change"
    return target_problem(target)


def _is_under_way(tp: TopicPartition, target: Brokers, c: Controller) -> bool:
    current = c.context.assignment(tp)
    return current.is_being_reassigned and current.target == target


def expect_completion(changed: Iterable[TopicPartition], c: Controller) -> None:
    """Queue an event that completes reassignments, because the ISRs of these partitions changed.

    The event comes later, so that the leader that changed the ISR gets its answer first.
    """
    if not c.context.being_reassigned:
        return
    partitions = c.context.being_reassigned & set(changed)
    if partitions and c.reassigner.note_grown(partitions):
        c.queue.put(ReassignmentsMayComplete(frozenset(partitions)))


async def follow_topic_znodes(images: Mapping[str, TopicImage], c: Controller) -> None:
    """Follow the assignments of known partitions that another writer changed, in topic znodes that were read.

    The controller's own writes are in the context already. Assignments with a replica on controllerd are left to
    ``our_replicas``.
    """
    found: dict[TopicPartition, ReplicaAssignment] = {}
    for name, image in images.items():
        await c.outbox.slicer.yield_to_loop()
        if name in c.context.deletions.started:
            continue  # a deletion that waits for a reassignment must see it end
        for partition, assignment in image.assignments.items():
            record = c.context.find(TopicPartition(name, partition))
            if record is None or record.assignment == assignment or assignment_flaw(assignment) is not None:
                continue
            if not names_us(assignment) and not names_us(record.assignment):
                found[record.tp] = assignment
    if found:
        await c.reassigner.adopt(found)
        await conclude(c)
        # A deletion may have waited for a reassignment that was put in quarantine, because it cannot be followed.
        await c.deletions.resume_for({tp.topic for tp in found})


async def end_requests_of(topic: str, c: Controller) -> None:
    """Remove the requests by znode for a topic that is gone, so that a new topic of its name does not inherit them."""
    await c.reassigner.requests.overrule(c.context.being_reassigned & set(c.context.partitions_of(topic)))
    await conclude(c)


async def conclude(c: Controller) -> None:
    """Go on with deletions that waited for reassignments, and schedule the retry of refused writes."""
    completed = c.reassigner.take_completed() & c.context.queued_for_deletion
    if completed:
        await c.deletions.resume_for(completed)
    pause_s = c.reassigner.unfinished.pause_s()
    if pause_s is not None:
        c.timers.put_later(pause_s, ReassignmentRetry())
