"""Partition reassignments: asked for by znode or by request, resumed, completed (KIP-455)."""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, ReplicaState, TopicImage, TopicPartition
from controllerd.core.reassignment import not_live, target_problem
from controllerd.core.records import PartitionRecord
from controllerd.core.sanitizer import names_us
from controllerd.core.soundness import assignment_flaw
from controllerd.errors import NotController
from controllerd.machines.passes import paced
from controllerd.machines.reassignment_requests import Brokers
from controllerd.machines.reassignments import Wish
from controllerd.machines.refusals import refuse
from events.reassignments import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ReassignmentRetry,
    ReassignmentsMayComplete,
    ZkPartitionReassignment,
)
from handlers.debts import pay_debts

log = structlog.get_logger(__name__)

Refusal = tuple[KafkaError, str]


async def initialise_reassignments(c: Controller) -> None:
    """At the start of a term: what the znode asks for, then everything else that is under way."""
    c.reassigner.begin_term()
    await c.reassigner.expel_strangers()
    served = await _serve_requests(c, again=True)
    await c.reassigner.resume(sorted(c.context.being_reassigned - served))
    await _conclude(c)


async def resume_reassignments_to(brokers: Iterable[BrokerId], c: Controller) -> None:
    """These brokers are back: what waits for one of them goes on."""
    back = set(brokers)
    await resume([tp for tp in c.context.being_reassigned if not back.isdisjoint(c.context.assignment(tp).target)], c)


def additions_to(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """Reassigned partitions whose replica the broker may not have heard of. Ask before its replicas are started."""
    return [tp for tp in c.context.being_reassigned if _may_be_unheard_of(c.context.record(tp), broker)]


def _may_be_unheard_of(record: PartitionRecord, broker: BrokerId) -> bool:
    """A new replica is not named as one that is being added where somebody overruled the reassignment that added it."""
    is_new = record.replica_states[broker] is ReplicaState.NEW
    return broker in record.assignment.adding or (is_new and broker in record.assignment.target)


async def resume(partitions: Collection[TopicPartition], c: Controller) -> None:
    """These reassignments go on."""
    if partitions:
        await c.reassigner.resume(sorted(partitions))
        await _conclude(c)


# -- by znode --------------------------------------------------------------------------------------------------------


async def on_zk_reassignment(_event: ZkPartitionReassignment, c: Controller) -> None:
    """``/admin/reassign_partitions`` asks for something. What is under way already is left alone."""
    if c.is_active:
        await _serve_requests(c, again=False)
        await _conclude(c)


async def _serve_requests(c: Controller, *, again: bool) -> set[TopicPartition]:
    """Carry out what the znode asks for, ``again`` also what is under way; returns the partitions that this concerned.

    Every entry ends (KAFKA-9478): refused ones are struck out here, the others when they are done.
    """
    read = await c.reassigner.requests.read()
    if read is None:
        return set()
    wanted: dict[TopicPartition, Wish] = {}
    refused: dict[TopicPartition, str] = {}
    async for tp, target in paced(read.targets.items(), c.outbox.pace):
        problem = _problem_of_entry(tp, target, c)
        if problem is not None:
            refused[tp] = problem
        elif again or not _is_under_way(tp, target, c):
            wanted[tp] = target
    refuse(c.audit, "reassignment by znode", refused.items())
    answers = await c.reassigner.run(wanted)
    failed = {tp: wanted[tp] or () for tp, error in answers.items() if error is not KafkaError.NONE}
    over = {tp: read.targets[tp] for tp in (*refused, *failed)}
    if over or not read.targets:
        await c.reassigner.requests.finish(over)
    return wanted.keys() - failed.keys()


def _problem_of_entry(tp: TopicPartition, target: Brokers, c: Controller) -> str | None:
    """Why an entry is refused, or None. A broker that is not live may come: whether it ever will, nobody can tell."""
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


# -- by request ------------------------------------------------------------------------------------------------------


async def on_api_reassignment(event: ApiPartitionReassignment, c: Controller) -> Mapping[TopicPartition, KafkaError]:
    """An admin client wants other replicas, or cancels. NONE: it has begun.

    A request overrules the znode, whose entries for the same partitions end here.
    """
    if not c.is_active:
        raise NotController("not the active controller")
    wanted: dict[TopicPartition, Wish] = {}
    refused: dict[TopicPartition, Refusal] = {}
    live = c.context.live
    async for tp, target in paced(event.targets.items(), c.outbox.pace):
        refusal = _refusal(tp, target, live, c)
        if refusal is None:
            wanted[tp] = target
        else:
            refused[tp] = refusal
    refuse(c.audit, "reassignment by request", ((tp, reason) for tp, (_, reason) in refused.items()))
    await c.reassigner.requests.overrule(wanted.keys())
    answers = await c.reassigner.run(wanted)
    await _conclude(c)
    return {tp: refused[tp][0] if tp in refused else answers[tp] for tp in event.targets}


def _refusal(tp: TopicPartition, target: Wish, live: AbstractSet[BrokerId], c: Controller) -> Refusal | None:
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
    """A topic whose deletion waits for a reassignment may be relieved of it; the peer refuses that, for ever."""
    if not current.is_being_reassigned:
        return KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "nothing to cancel"
    if tp.topic in c.context.deletions.started:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the topic is being deleted"
    return None


async def on_list_reassignments(
    event: ListPartitionReassignments, c: Controller
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """What is under way."""
    if not c.is_active:
        raise NotController("not the active controller")
    wanted = c.context.being_reassigned
    if event.partitions is not None:
        wanted = wanted & event.partitions
    return {tp: c.context.assignment(tp) for tp in sorted(wanted)}


# -- progress --------------------------------------------------------------------------------------------------------


async def on_isr_of_reassignment(
    event: PartitionReassignmentIsrChange | ReassignmentsMayComplete, c: Controller
) -> None:
    """New replicas may have caught up."""
    if not c.is_active:
        return
    if isinstance(event, PartitionReassignmentIsrChange):
        expect_completion({event.tp}, c)  # others are on their way: they are read together
        return
    await c.reassigner.complete_those_ready(event.partitions)
    await _conclude(c)


async def on_reassignment_retry(_event: ReassignmentRetry, c: Controller) -> None:
    """ZooKeeper refused to write something a while ago: try again, less and less often, until it does.

    Replicas that could not be taken out of their ISRs were not deleted either: brokers are told what they still owe.
    """
    if c.is_active:
        await c.reassigner.retry()
        await pay_debts(sorted(c.context.live_or_shutting_down), c)
        await _conclude(c)


def expect_completion(changed: Iterable[TopicPartition], c: Controller) -> None:
    """The ISRs of these partitions changed: look later whether reassignments are complete.

    Later, so that the leader that changed the ISR has its answer first.
    """
    if not c.context.being_reassigned:
        return
    partitions = c.context.being_reassigned & set(changed)
    if partitions and c.reassigner.note_grown(partitions):
        c.queue.put(ReassignmentsMayComplete(frozenset(partitions)))


async def follow_topic_znodes(images: Mapping[str, TopicImage], c: Controller) -> None:
    """Topic znodes were read: follow what somebody else did to the assignments of partitions that we know.

    What we wrote ourselves is known already. Replicas on controllerd have a keeper of their own.
    """
    found: dict[TopicPartition, ReplicaAssignment] = {}
    for name, image in images.items():
        await c.outbox.pace.breathe()
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
        await _conclude(c)
        await c.deletions.resume_for({tp.topic for tp in found})  # what waits for one that nobody can follow


async def end_requests_of(topic: str, c: Controller) -> None:
    """The topic is gone, and another of its name is there: what was asked for the old one is not for the new one."""
    await c.reassigner.requests.overrule(c.context.being_reassigned & set(c.context.partitions_of(topic)))
    await _conclude(c)


async def _conclude(c: Controller) -> None:
    """What waits for reassignments goes on, and what ZooKeeper refused to write is tried again later."""
    completed = c.reassigner.take_completed() & c.context.queued_for_deletion
    if completed:
        await c.deletions.resume_for(completed)
    pause_s = c.reassigner.unfinished.pause_s()
    if pause_s is not None:
        c.timers.put_later(pause_s, ReassignmentRetry())
