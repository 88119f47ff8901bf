"""Replicas that a broker must delete when it is back, because they were removed while it was away."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_progress import has_earlier, has_pending_of_earlier_topic
from controllerd.core.deletion_waits import hidden_topics, is_hidden
from controllerd.core.election import Offline
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.quarantine import is_in_doubt
from controllerd.machines.outbox import SLICE
from controllerd.machines.passes import in_order, paced
from controllerd.machines.state_changes import EpochBump
from controllerd.pace import sliced
from events.responses import LeaderAndIsrResponseReceived

log = structlog.get_logger(__name__)


async def load_pending_deletions(c: Controller) -> None:
    """Load the pending deletions of all brokers at the start of a term."""
    for broker, pending in (await c.store.read_pending_deletions()).items():
        c.context.pending_deletions.set(broker, pending)


async def send_pending_deletions(
    brokers: Iterable[BrokerId], c: Controller, *, topics: AbstractSet[str] | None = None
) -> None:
    """Send StopReplica for the pending deletions of these live brokers, and clear those that are no longer needed.

    ``topics`` limits both to the replicas of these topics.
    """
    for broker in brokers:
        all_pending = c.context.pending_deletions.of(broker)
        pending = await in_order(all_pending if topics is None else _of(all_pending, topics), c.outbox.pace)
        if pending and broker in c.context.brokers:
            not_needed, due = await _divide(broker, pending, c)
            await c.pending_deletions.clear(broker, not_needed)
            await elect_after_deletion_waived(broker, not_needed, c)
            await _ask_for_deletion(broker, due, c)


def _of(pending: Iterable[TopicPartition], topics: AbstractSet[str]) -> list[TopicPartition]:
    return [tp for tp in pending if tp.topic in topics]


async def elect_after_deletion_waived(broker: BrokerId, partitions: Iterable[TopicPartition], c: Controller) -> None:
    """Elect leaders for offline partitions whose replicas this broker no longer has to delete."""
    hidden, state_of = hidden_topics(c.context), c.context.partition_state
    kept = [
        tp async for tp in paced(partitions, c.outbox.pace) if tp.topic not in hidden and _is_assigned(broker, tp, c)
    ]
    leaderless = [tp for tp in kept if state_of(tp) is PartitionState.OFFLINE]
    await c.partitions.handle(leaderless, PartitionState.ONLINE, Offline())


async def _divide(
    broker: BrokerId, pending: Sequence[TopicPartition], c: Controller
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the deletions that are no longer needed, and those that are due now."""
    not_needed, due = list[TopicPartition](), list[TopicPartition]()
    for part in sliced(pending, SLICE):
        not_needed += [tp for tp in part if _is_no_longer_needed(broker, tp, c)]
        due += [tp for tp in part if _is_due(broker, tp, c)]
        await c.outbox.pace.breathe()
    return not_needed, due


def _is_no_longer_needed(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the replica is assigned to the broker again.

    The replica of an earlier topic of the same name has to go all the same, because the broker refuses the present
    topic while it has that replica (``begin_anew``).
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
    """Whether the deletion of the topic sends the StopReplica: an operator had given the broker up (KAFKA-10548)."""
    is_the_same = c.context.pending_deletions.of(broker).get(tp) == c.context.topic_id(tp.topic)
    return tp.topic in c.context.queued_for_deletion and is_the_same


# -- replicas of earlier topics ----------------------------------------------------------------------------------------


async def begin_anew(event: LeaderAndIsrResponseReceived, c: Controller) -> None:
    """A broker that refuses a partition for its topic id has the replica of an earlier topic, which it owes us.

    StopReplica names no id, so that it deletes whatever is there. What makes it safe: the broker just said that it has
    not the present topic; it was told to delete nothing since, and could not have begun the present one before that;
    and the order is one leader epoch older than the one to begin anew, so that it is refused if it comes late.
    """
    both, errors = c.context.pending_deletions.of(event.broker).keys() & event.partitions, event.partition_errors
    those = paced(await in_order(both, c.outbox.pace), c.outbox.pace)
    answered = [tp async for tp in those if has_earlier(c.context, event.broker, tp)]
    taken = [tp for tp in answered if errors.get(tp, KafkaError.NONE) is KafkaError.NONE]
    began = [tp for tp in taken if _is_assigned(event.broker, tp, c)]
    await c.pending_deletions.clear(event.broker, began)
    await elect_after_deletion_waived(event.broker, began, c)
    refused = [tp for tp in answered if errors.get(tp) is KafkaError.INCONSISTENT_TOPIC_ID]
    await _replace(event.broker, [tp for tp in refused if _may_be_replaced(event.broker, tp, c)], c)


def _may_be_replaced(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the partition is led by somebody else, who has all of it."""
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
    log.warning("replicas of earlier topics are in the way", broker=broker, replicas=len(partitions))
    await _ask_for_deletion(broker, partitions, c)
    records = [c.context.record(tp) for tp in partitions]
    led = await EpochBump(c.context, c.store, c.audit, c.outbox.pace).run(records)
    async with c.outbox.batch() as batch:
        for part in sliced(led, SLICE):
            batch.add_leaderships(((each, (broker,)) for each in part), is_new=True)
            batch.add_leaderships(((each, c.context.liveness.online(each)) for each in part), is_new=False)
            await c.outbox.pace.breathe()


async def _ask_for_deletion(broker: BrokerId, due: Sequence[TopicPartition], c: Controller) -> None:
    if not due:
        return
    log.info("asking a broker to delete what it missed", broker=broker, replicas=len(due))
    async with c.outbox.batch() as batch:
        for part in sliced(due, SLICE):
            for tp in part:
                batch.add_stop_replica((broker,), tp, delete=True)
            await c.outbox.pace.breathe()
