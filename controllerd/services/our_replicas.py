"""Gives replicas that brokers assigned to controllerd, because it is in their metadata, to live brokers instead.

``topic_preparation`` does the same before a topic starts. This module does it for all other partitions: partitions that
had to wait for a broker, and partitions that a built-in controller started while no instance led.
"""

from collections.abc import Iterable, Mapping

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import OfflineElection
from controllerd.core.model import (
    OUR_IDS,
    BrokerId,
    PartitionState,
    Replica,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.core.sanitizer import names_us
from controllerd.record.records import AlarmRecord
from controllerd.services.topic_preparation import prepare_topics
from controllerd.services.topics import on_new_partition_creation, start_partitions, take_topic, unknown_partitions

log = structlog.get_logger(__name__)


async def replace_our_replicas(c: Controller) -> None:
    """Give our replicas to live brokers, as far as there are enough brokers; alarm the partitions that remain."""
    if ours := _partitions_naming_us(c):
        await _give_away(ours, c)
    _alarm(_naming_us(c), c)


async def _give_away(ours: set[TopicPartition], c: Controller) -> None:
    names = {tp.topic for tp in ours}
    read = await c.store.topics.read_topics(names)
    others = {tp for name in names for tp in c.context.partitions_of(name)} - ours
    images = await prepare_topics(c, read.topics, others)
    added = await unknown_partitions(images, c)  # another writer may have added them while the topic was prepared
    for image in images.values():
        take_topic(c, image)
    gained = _set_assignments(ours, images, c)
    fresh = [tp for tp in gained if c.context.partition_state(tp) is PartitionState.NEW]
    await start_partitions(fresh, c)
    await _join({tp: brokers for tp, brokers in gained.items() if tp not in set(fresh)}, c)
    await on_new_partition_creation([tp for tp in added if c.context.find(tp) is not None], c)


def _set_assignments(
    ours: Iterable[TopicPartition], images: Mapping[str, TopicImage], c: Controller
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Put the new assignments into the context; returns the brokers that each partition gained."""
    gained = {}
    for tp in sorted(ours):
        before = c.context.assignment(tp)
        after = images[tp.topic].assignments.get(tp.partition) if tp.topic in images and tp in c.context else None
        if after is not None and not names_us(after):
            gained[tp] = tuple(broker for broker in after.replicas if broker not in before.replicas)
            c.context.set_assignment(tp, after)
    return gained


async def _join(gained: Mapping[TopicPartition, tuple[BrokerId, ...]], c: Controller) -> None:
    """Start the gained replicas of running partitions as new.

    The election raises the leader epoch, so that the other replicas accept the changed assignment. If the ISR named
    controllerd, all replicas were on controllerd and there are no records: a leader is elected from outside the ISR.
    """
    replicas = [Replica(tp, broker) for tp, brokers in gained.items() for broker in brokers]
    were_ours = {tp for tp in gained if _isr_names_us(tp, c)}
    await c.replicas.handle(replicas, ReplicaState.NEW)
    await c.partitions.handle([tp for tp in gained if tp not in were_ours], PartitionState.ONLINE, OfflineElection())
    await c.partitions.handle(sorted(were_ours), PartitionState.ONLINE, OfflineElection(allow_unclean=True))
    await c.replicas.handle(replicas, ReplicaState.ONLINE)


def _partitions_naming_us(c: Controller) -> set[TopicPartition]:
    """Return the partitions with a replica on us that we may give away without losing a record.

    A partition whose ISR does not name us is one of them. So is one all of whose replicas are on us: a
    broker's own controller started it while it counted us as a broker, and we hold no records, so that
    any broker may lead it from the beginning. A partition whose ISR names us beside replicas on brokers
    is left to the operator, because these replicas may hold records.
    """
    return {tp for tp in _naming_us(c) if not _isr_names_us(tp, c) or _is_ours_alone(tp, c)}


def _naming_us(c: Controller) -> set[TopicPartition]:
    """Return the partitions with a replica on us.

    Topics whose deletion has begun are left alone: a broker that got the replica would only have to delete it.
    """
    hidden = hidden_topics(c.context)
    named = {tp for number in OUR_IDS for tp in c.context.partitions_on(BrokerId(number)) if tp.topic not in hidden}
    return {tp for tp in named if names_us(c.context.assignment(tp))}


def _is_ours_alone(tp: TopicPartition, c: Controller) -> bool:
    return all(broker in OUR_IDS for broker in c.context.assignment(tp).replicas)


def _isr_names_us(tp: TopicPartition, c: Controller) -> bool:
    leadership = c.context.leadership(tp)
    return leadership is not None and any(broker in OUR_IDS for broker in leadership.isr)


def _alarm(left: Iterable[TopicPartition], c: Controller) -> None:
    """Alarm the running partitions that still have a replica on controllerd; new partitions only wait."""
    running = sorted(tp for tp in left if c.context.leadership(tp) is not None)
    for tp in running:
        c.audit.record(AlarmRecord("a replica is on controllerd", str(tp)))
    if running:
        log.error("found replicas on controllerd", partitions=len(running), first=str(running[0]))
