"""Replicas that a broker must delete when it is back, because they were removed while it was away."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_progress import has_earlier, owes_earlier
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


async def load_debts(c: Controller) -> None:
    """At the start of a term: what brokers have to delete."""
    for broker, owed in (await c.store.read_debts()).items():
        c.context.debts.set(broker, owed)


async def pay_debts(brokers: Iterable[BrokerId], c: Controller, *, topics: AbstractSet[str] | None = None) -> None:
    """These brokers are live: tell them what to delete; what they are to have again is not owed any more.

    With ``topics`` only what they owe of these is judged.
    """
    for broker in brokers:
        debts = c.context.debts.of(broker)
        owed = await in_order(debts if topics is None else _of(debts, topics), c.outbox.pace)
        if owed and broker in c.context.brokers:
            forgiven, due = await _judged(broker, owed, c)
            await c.debts.settle(broker, forgiven)
            await let_lead(broker, forgiven, c)
            await _ask_for_deletion(broker, due, c)


def _of(debts: Iterable[TopicPartition], topics: AbstractSet[str]) -> list[TopicPartition]:
    return [tp for tp in debts if tp.topic in topics]


async def let_lead(broker: BrokerId, partitions: Iterable[TopicPartition], c: Controller) -> None:
    """The broker deletes none of these any more: what nobody leads it may lead, where that is allowed."""
    hidden, state_of, those = hidden_topics(c.context), c.context.partition_state, paced(partitions, c.outbox.pace)
    kept = [tp async for tp in those if tp.topic not in hidden and _is_assigned(broker, tp, c)]
    leaderless = [tp for tp in kept if state_of(tp) is PartitionState.OFFLINE]
    await c.partitions.handle(leaderless, PartitionState.ONLINE, Offline())


async def _judged(
    broker: BrokerId, owed: Sequence[TopicPartition], c: Controller
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """What the broker need not delete any more, and what it is to delete now."""
    forgiven, due = list[TopicPartition](), list[TopicPartition]()
    for part in sliced(owed, SLICE):
        forgiven += [tp for tp in part if _is_forgiven(broker, tp, c)]
        due += [tp for tp in part if _is_due(broker, tp, c)]
        await c.outbox.pace.breathe()
    return forgiven, due


def _is_forgiven(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the broker is to have the replica after all.

    Not of a topic that was created anew: what the broker still has of the earlier one is in the way (``begin_anew``).
    """
    is_wanted = _is_assigned(broker, tp, c) and not owes_earlier(c.context, broker, tp)
    return is_wanted and not _is_deleted_with_topic(broker, tp, c)


def _is_due(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether nobody assigns the replica to the broker or counts on it, as far as we can understand the topic."""
    if _is_assigned(broker, tp, c) or is_in_doubt(c.context, tp):
        return False
    leadership = c.context.leadership(tp)
    return leadership is None or broker not in leadership.isr


def _is_assigned(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    record = c.context.find(tp)
    return record is not None and broker in record.assignment.replicas


def _is_deleted_with_topic(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether the deletion of the whole topic will tell the broker: an operator had given it up (KAFKA-10548)."""
    is_the_same = c.context.debts.of(broker).get(tp) == c.context.topic_id(tp.topic)
    return tp.topic in c.context.queued_for_deletion and is_the_same


# -- replicas of earlier topics ----------------------------------------------------------------------------------------


async def begin_anew(event: LeaderAndIsrResponseReceived, c: Controller) -> None:
    """A broker that refuses a partition for its topic id has the replica of an earlier topic, which it owes us.

    StopReplica names no id, so that it deletes whatever is there. What makes it safe: the broker just said that it has
    not the present topic; it was told to delete nothing since, and could not have begun the present one before that;
    and the order is one leader epoch older than the one to begin anew, so that it is refused if it comes late.
    """
    both, errors = c.context.debts.of(event.broker).keys() & event.partitions, event.partition_errors
    those = paced(await in_order(both, c.outbox.pace), c.outbox.pace)
    answered = [tp async for tp in those if has_earlier(c.context, event.broker, tp)]
    taken = [tp for tp in answered if errors.get(tp, KafkaError.NONE) is KafkaError.NONE]
    began = [tp for tp in taken if _is_assigned(event.broker, tp, c)]
    await c.debts.settle(event.broker, began)
    await let_lead(event.broker, began, c)
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
