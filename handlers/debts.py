"""Replicas that a broker must delete when it is back, because they were removed while it was away."""

from collections.abc import Iterable, Sequence

import structlog

from controllerd.controller import Controller
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.machines.outbox import SLICE
from controllerd.pace import sliced

log = structlog.get_logger(__name__)


async def load_debts(c: Controller) -> None:
    """At the start of a term: what brokers have to delete."""
    for broker, owed in (await c.store.read_debts()).items():
        c.context.debts.set(broker, owed)


async def pay_debts(brokers: Iterable[BrokerId], c: Controller) -> None:
    """These brokers are live: tell them what to delete; what they are to have again is not owed any more."""
    for broker in brokers:
        owed = sorted(c.context.debts.of(broker))
        if owed and broker in c.context.brokers:
            forgiven, due = await _judged(broker, owed, c)
            await c.debts.settle(broker, forgiven)
            await _ask_for_deletion(broker, due, c)


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
    """Whether the broker is to have the replica after all, perhaps of a topic that was created anew."""
    return _is_assigned(broker, tp, c) and not _is_deleted_with_topic(broker, tp, c)


def _is_due(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    """Whether nobody assigns the replica to the broker or counts on it, as far as we can understand the topic."""
    doubtful = (f"/brokers/topics/{tp.topic}", f"/brokers/topics/{tp.topic}/partitions/{tp.partition}")
    if _is_assigned(broker, tp, c) or any(path in c.context.quarantine for path in doubtful):
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


async def _ask_for_deletion(broker: BrokerId, due: Sequence[TopicPartition], c: Controller) -> None:
    if not due:
        return
    log.info("asking a broker to delete what it missed", broker=broker, replicas=len(due))
    async with c.outbox.batch() as batch:
        for part in sliced(due, SLICE):
            for tp in part:
                batch.add_stop_replica((broker,), tp, delete=True)
            await c.outbox.pace.breathe()
