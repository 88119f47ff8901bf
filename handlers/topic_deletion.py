"""Topics are deleted: the request, the brokers' answers, and brokers that never return."""

from collections.abc import Collection
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.cluster_settings import DELETE_TOPICS
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaState, TopicPartition
from controllerd.core.quarantine import is_in_quarantine
from controllerd.errors import CallRefused, NotController
from controllerd.machines.outbox import SLICE
from controllerd.machines.passes import paced
from controllerd.pace import sliced
from events.admin import ForgetBroker, Forgotten
from events.reassignments import ZkPartitionReassignment
from events.topics import TopicDeletion, TopicDeletionRetry, TopicDeletionStopReplicaResponseReceived
from handlers.debts import let_lead, load_debts, pay_debts
from handlers.responses import on_top_level_error
from handlers.topics import on_topic_change

log = structlog.get_logger(__name__)

FIRST_RETRY_S: Final = 30.0
LAST_RETRY_S: Final = 600.0
_DOUBLINGS: Final = 10
_BEGINS_AFTER_S: Final = 1.0
"""Not at once: an event that fails because ZooKeeper is away would be followed by itself without a pause."""


async def initialise_deletions(c: Controller) -> None:
    """At the start of a term, before the state machines: which topics are to be deleted.

    A marker without a topic is what a controller left that died while it deleted: the rest goes now. What is known of a
    deletion otherwise is lost with a term; its replicas are deleted again.

    If ``delete.topic.enable`` is off now, the requests are dropped, as the built-in controller does. ZooKeeper does not
    show whether an earlier term had begun a deletion: a partition without leader may as well have a leader that died.
    It is worse to carry out a deletion that was never allowed than to serve a topic again whose replicas are empty.
    """
    await load_debts(c)
    asked = await c.store.read_topic_deletions()
    if not c.policy.delete_topic_enable:
        await _drop_all(asked, c)
        return
    c.deletions.queue(sorted(_not_waiting(asked & c.context.topics.keys(), c)))
    unknown = asked - c.context.topics.keys()
    if not unknown:
        return
    there = await c.store.read_topic_names()
    gone = unknown - there
    if gone:
        log.info("ending deletions of an earlier controller", topics=len(gone))
        await c.store.delete_topics(gone)
    if unknown & there:
        c.queue.put(TopicDeletion())  # created since we loaded: after TopicChange, which is on its way


async def on_topic_deletion(event: TopicDeletion, c: Controller) -> None:
    """Somebody asked for deletions: queue them, then see what each waits for.

    The peer looks first for what makes a topic wait, and forgets it again because the topic is not queued yet. A queued
    deletion goes on when deletions are turned off later, because brokers may have deleted replicas.
    """
    if not c.is_active:
        return
    asked = await c.store.read_topic_deletions()
    if not c.policy.delete_topic_enable:
        await _drop_all(asked - c.context.deletions.queued, c)
        await c.deletions.resume()
        return
    if asked - c.context.topics.keys():
        await on_topic_change(event, c)  # of a topic that was created a moment ago we may not know yet
        await _drop_unknown(asked - c.context.topics.keys(), c)
    known = _not_waiting(asked & c.context.topics.keys(), c)
    c.deletions.queue(sorted(name for name in known if not is_in_quarantine(c.context, name)))
    await c.deletions.resume()


def _not_waiting(asked: Collection[str], c: Controller) -> Collection[str]:
    """Those to be queued now. While deletions are paused the others go on as any topic, though readers see the wish."""
    book = c.context.deletions
    before = book.waiting
    begun = book.queued | book.begun_before
    book.waiting = frozenset(asked) - begun if book.paused is not None else frozenset()
    for topic in before ^ book.waiting:
        c.context.touch(topic)
    return [topic for topic in asked if topic not in book.waiting]


async def _drop_all(asked: Collection[str], c: Controller) -> None:
    """Drop requests for deletions; keep all of them waiting while ``delete.topic.enable`` is unknown.

    The caller leaves out the requests that this term had accepted before the setting was turned off: they are carried
    out, because brokers may have deleted replicas.
    """
    if DELETE_TOPICS in c.policy.unknown:
        return
    if asked:
        log.warning("topic deletion is disabled: requests dropped", topics=sorted(asked))
        await c.store.delete_deletion_markers(asked)


async def _drop_unknown(unknown: Collection[str], c: Controller) -> None:
    """Requests for topics that do not exist go; those for topics that we cannot understand wait (KAFKA-3175)."""
    waiting = {name for name in unknown if is_in_quarantine(c.context, name)}
    stray = sorted(set(unknown) - waiting)
    if waiting:
        log.warning("topics in quarantine are not deleted", topics=sorted(waiting))
    if stray:
        log.warning("deletion of unknown topics dropped", topics=stray)
        await c.store.delete_deletion_markers(stray)


async def on_stop_replica_response(event: TopicDeletionStopReplicaResponseReceived, c: Controller) -> None:
    """A broker deleted replicas, or failed to. What an earlier registration of it did does not count."""
    if not c.is_active or event.controller_epoch != c.context.epoch:
        return
    if event.error is not KafkaError.NONE:
        await on_top_level_error(event.broker, "StopReplica", event.error, c)
    if c.context.epochs().get(event.broker) != event.broker_epoch:
        return
    deleted, failed = await _outcomes(event, c)
    await c.debts.settle(event.broker, c.context.debts.ordered(event.broker) & set(deleted))
    c.context.debts.end_waiver(event.broker, [*deleted, *failed])
    await let_lead(event.broker, [*deleted, *failed], c)
    if not failed.keys().isdisjoint(c.context.debts.of(event.broker)):
        c.timers.put_later(LAST_RETRY_S, TopicDeletionRetry())  # nobody waits for it
    await c.deletions.refuse(event.broker, failed)
    await c.deletions.complete(event.broker, deleted)


async def _outcomes(
    event: TopicDeletionStopReplicaResponseReceived, c: Controller
) -> tuple[list[TopicPartition], dict[TopicPartition, KafkaError]]:
    """Which replicas the broker deleted, and why it did not delete others; not those that it was told again since."""
    deleted, failed = list[TopicPartition](), dict[TopicPartition, KafkaError]()
    async for tp, error in paced(event.partition_errors.items(), c.outbox.pace):
        if not c.context.debts.take_answer(event.broker, tp):
            continue
        reason = event.error if error is KafkaError.NONE else error
        if reason is KafkaError.NONE:
            deleted.append(tp)
        else:
            failed[tp] = reason
    return deleted, failed


async def on_deletion_retry(_event: TopicDeletionRetry, c: Controller) -> None:
    """Brokers or ZooKeeper refused to delete something a while ago: ask them again, less and less often."""
    if not c.is_active:
        return
    await pay_debts(sorted(c.context.live_or_shutting_down), c)
    await c.deletions.resume_for(set(c.context.deletions.refused))


async def repeat_deletions(broker: BrokerId, c: Controller) -> None:
    """What the broker was told to delete did not reach it: tell it again."""
    started = c.context.deletions.started
    await c.deletions.fail({broker: [tp for tp in c.context.partitions_on(broker) if tp.topic in started]})


def follow_up(c: Controller) -> None:
    """Called after every event: while somebody refuses to delete something, ask again from time to time.

    Have the requests for reassignments looked through when a topic went that was being reassigned. And
    begin a deletion that waits for nothing any more: whatever ended the wait, a topic that is no longer
    served must not stay so without its deletion.
    """
    book = c.context.deletions
    waiting = book.queued.difference(book.started, book.begun_before, book.refused)
    if any(_is_due(topic, c) for topic in waiting):
        c.timers.put_later(_BEGINS_AFTER_S, TopicDeletion())
    if book.has_cut_reassignments:
        book.has_cut_reassignments = False
        c.queue.put(ZkPartitionReassignment())
    if book.refused and book.paused is None:
        pause_s = FIRST_RETRY_S * 2 ** min(book.fewest_refusals() - 1, _DOUBLINGS)
        c.timers.put_later(min(pause_s, LAST_RETRY_S), TopicDeletionRetry())


def _is_due(topic: str, c: Controller) -> bool:
    """Whether the deletion of a topic, which has not begun, waits for nothing any more."""
    return topic in c.context.topics and not is_in_quarantine(c.context, topic) and is_hidden(c.context, topic)


# -- brokers that never return -----------------------------------------------------------------------------------------


async def on_forget_broker(event: ForgetBroker, c: Controller) -> Forgotten:
    """A broker never returns: its replicas of topics that are being deleted hold nobody up any more (KAFKA-10548).

    What it may still have on its disks is written down first, and deleted should it return after all.

    :raises CallRefused: the broker is registered.
    """
    if not c.is_active:
        raise NotController("not the active controller")
    if event.broker in c.context.brokers:
        raise CallRefused(f"broker {event.broker} is registered: only a broker that is gone can be forgotten")
    given_up = await _held_up_by(event.broker, c)
    topics = tuple(sorted({tp.topic for tp in given_up}))
    log.warning("broker forgotten", broker=event.broker, reason=event.reason, topics=topics, replicas=len(given_up))
    await c.debts.owe({event.broker: given_up})
    await c.deletions.resume_for(topics)
    return Forgotten(topics, len(given_up))


async def _held_up_by(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """The broker's replicas of queued topics that are not deleted yet."""
    queued, found = c.context.queued_for_deletion, list[TopicPartition]()
    for part in sliced(c.context.records_on(broker), SLICE):
        found += [
            record.tp
            for record in part
            if record.tp.topic in queued and record.replica_states[broker] is not ReplicaState.DELETION_SUCCESSFUL
        ]
        await c.outbox.pace.breathe()
    return found
