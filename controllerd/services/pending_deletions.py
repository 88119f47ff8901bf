"""Sends pending replica deletions, clears them, and handles replicas of earlier topics of the same name."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_progress import has_pending_of_earlier_topic, has_unsent_of_earlier_topic
from controllerd.core.deletion_waits import hidden_topics, is_hidden
from controllerd.core.election import OfflineElection
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import is_in_doubt
from controllerd.machines.state_changes import EpochBump
from controllerd.slicer import in_order
from events.responses import LeaderAndIsrResponseReceived

log = structlog.get_logger(__name__)


async def load_pending_deletions(c: Controller) -> None:
    """Load the pending deletions of all brokers at the start of a term."""
    for broker, pending in (await c.store.pending_deletions.read_pending_deletions()).items():
        c.context.pending_deletions.set(broker, pending)


async def send_pending_deletions(
    brokers: Iterable[BrokerId], c: Controller, *, topics: AbstractSet[str] | None = None
) -> None:
    """Send the pending deletions of these brokers to the live ones among them, and clear those no longer needed.

    Where clearing one makes a replica eligible again, leaders are elected for its partition.

    ``topics`` limits both to the replicas of these topics.
    """
    for broker in brokers:
        all_pending = c.context.pending_deletions.of(broker)
        pending = await in_order(all_pending if topics is None else _of(all_pending, topics), c.outbox.slicer)
        if pending and broker in c.context.brokers:
            not_needed, due = await _divide(broker, pending, c)
            await c.pending_deletions.clear(broker, not_needed)
            await elect_after_deletion_waived(broker, not_needed, c)
            await _send_deletion(broker, due, c)


def _of(pending: Iterable[TopicPartition], topics: AbstractSet[str]) -> list[TopicPartition]:
    return [tp for tp in pending if tp.topic in topics]


async def elect_after_deletion_waived(broker: BrokerId, partitions: Iterable[TopicPartition], c: Controller) -> None:
    """Elect leaders for the offline ones of these partitions, whose replicas this broker no longer has to delete."""
    hidden, state_of = hidden_topics(c.context), c.context.partition_state
    kept = [
        tp async for tp in c.outbox.slicer.each(partitions) if tp.topic not in hidden and _is_assigned(broker, tp, c)
    ]
    leaderless = [tp for tp in kept if state_of(tp) is PartitionState.OFFLINE]
    await c.partitions.handle(leaderless, PartitionState.ONLINE, OfflineElection())


async def _divide(
    broker: BrokerId, pending: Sequence[TopicPartition], c: Controller
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the deletions that are no longer needed, and the deletions that are due now."""
    not_needed, due = list[TopicPartition](), list[TopicPartition]()
    async for tp in c.outbox.slicer.each(pending):
        if _is_no_longer_needed(broker, tp, c):
            not_needed.append(tp)
        if _is_due(broker, tp, c):
            due.append(tp)
    return not_needed, due


def _is_no_longer_needed(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the replica is assigned to the broker again.

    The replica of an earlier topic of the same name must still be deleted, because the broker refuses the present
    topic while it has that replica (``replace_replicas_of_earlier_topics``).
    """
    is_wanted = _is_assigned(broker, tp, c) and not has_pending_of_earlier_topic(c.context, broker, tp)
    return is_wanted and not _is_deleted_with_topic(broker, tp, c)


def _is_due(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the replica is neither assigned nor in the ISR, as far as the topic can be understood."""
    if _is_assigned(broker, tp, c) or is_in_doubt(c.context, tp):
        return False
    leadership = c.context.leadership(tp)
    return leadership is None or broker not in leadership.isr


def _is_assigned(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    record = c.context.find(tp)
    return record is not None and broker in record.assignment.replicas


def _is_deleted_with_topic(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the deletion of the topic sends the StopReplica itself, once the broker is back.

    So it is for a broker that an operator gave up while the topic was queued for deletion (KAFKA-10548).
    """
    is_same_topic = c.context.pending_deletions.of(broker).get(tp) == c.context.topic_id(tp.topic)
    return tp.topic in c.context.queued_for_deletion and is_same_topic


# -- replicas of earlier topics ----------------------------------------------------------------------------------------


async def replace_replicas_of_earlier_topics(event: LeaderAndIsrResponseReceived, c: Controller) -> None:
    """Compare an answer with the pending deletions of earlier topics: clear them, or replace the replicas.

    A broker that accepts LeaderAndIsr for the present topic no longer has the replica of the earlier one. If it refuses
    the present topic id, it still has that replica, which is then deleted and started anew.

    StopReplica names no topic id, so it deletes the replica of whichever topic is there. This is safe for three
    reasons. The broker just answered that it does not have the present topic. It was sent no deletion since, and could
    not have started the present topic before one. And the deletion carries one leader epoch less than the request that
    starts the replica again, so the broker refuses the deletion if it comes late.
    """
    both, errors = c.context.pending_deletions.of(event.broker).keys() & event.partitions, event.partition_errors
    partitions = c.outbox.slicer.each(await in_order(both, c.outbox.slicer))
    answered = [tp async for tp in partitions if has_unsent_of_earlier_topic(c.context, event.broker, tp)]
    accepted = [tp for tp in answered if errors.get(tp, KafkaError.NONE) is KafkaError.NONE]
    started = [tp for tp in accepted if _is_assigned(event.broker, tp, c)]
    await c.pending_deletions.clear(event.broker, started)
    await elect_after_deletion_waived(event.broker, started, c)
    refused = [tp for tp in answered if errors.get(tp) is KafkaError.INCONSISTENT_TOPIC_ID]
    await _replace(event.broker, [tp for tp in refused if _may_be_replaced(event.broker, tp, c)], c)


def _may_be_replaced(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the replica may be deleted and started anew: it is not in the ISR, and an online leader has the records.

    The partition must also be served (not hidden, not in quarantine), and its target must have the replica.
    """
    record = c.context.find(tp)
    if record is None or record.leadership is None:
        return False
    if is_hidden(c.context, tp.topic) or is_in_doubt(c.context, tp):
        return False
    leadership = record.leadership
    is_led = c.context.is_online(leadership.leader, tp)
    return broker in record.assignment.target and broker not in leadership.isr and is_led


async def _replace(broker: BrokerId, partitions: Sequence[TopicPartition], c: Controller) -> None:
    if not partitions:
        return
    log.warning("found replicas of earlier topics", broker=broker, replicas=len(partitions))
    await _send_deletion(broker, partitions, c)  # before the leader epoch rises, see above
    records = [c.context.record(tp) for tp in partitions]
    led = await EpochBump(c.context, c.store.states, c.audit, c.outbox.slicer).run(records)
    async with c.outbox.batch() as batch:

        def add(part: Sequence[PartitionRecord]) -> None:
            batch.add_leaderships(((each, (broker,)) for each in part), is_new=True)
            batch.add_leaderships(((each, c.context.liveness.online(each)) for each in part), is_new=False)

        await c.outbox.slicer.for_each_slice(led, add)


async def _send_deletion(broker: BrokerId, due: Sequence[TopicPartition], c: Controller) -> None:
    if not due:
        return
    log.info("sent pending deletions", broker=broker, replicas=len(due))
    async with c.outbox.batch() as batch:
        async for tp in c.outbox.slicer.each(due):
            batch.add_stop_replica((broker,), tp, delete=True)
