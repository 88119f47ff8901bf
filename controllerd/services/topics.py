"""Topics and partitions are created and deleted: the context follows ZooKeeper, and new partitions start."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.election import Offline
from controllerd.core.model import (
    BrokerId,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.core.sanitizer import names_us
from controllerd.core.soundness import AssignmentFlaw, assignment_flaw
from controllerd.errors import BadZnode
from controllerd.ports.results import TopicsRead
from controllerd.services.late_partitions import drop_late_partitions
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.quarantine import quarantine
from controllerd.services.reassignments import end_requests_of, expect_completion, follow_topic_znodes
from controllerd.services.topic_preparation import known_id, prepare_topics
from events.reassignments import ZkPartitionReassignment
from events.topics import TopicDeletion

log = structlog.get_logger(__name__)

_TOPICS: Final = "/brokers/topics"


async def compare_topics(c: Controller) -> None:
    """Take in the topics that ZooKeeper has and the context has not, and forget the others."""
    names, doubts = await c.store.topics.read_topic_names(), _doubts(c)
    for gone in [name for name in c.context.topics if name not in names]:
        _forget(gone, c)
    _release(doubts.keys() - names, c)
    fresh = [name for name in names if name not in c.context.topics]
    if fresh:
        await _take_in(await c.store.topics.read_topics(fresh), c)
    await _send_deletions_of_clear_topics(doubts, c)


def _forget(topic: str, c: Controller) -> None:
    """Forget a topic whose znode another writer deleted; a request for its deletion is dropped as well."""
    log.info("forgot topic", topic=topic)
    if topic in c.context.queued_for_deletion or topic in c.context.deletions.waiting:
        c.queue.put(TopicDeletion())
    if not c.context.being_reassigned.isdisjoint(c.context.partitions_of(topic)):
        c.queue.put(ZkPartitionReassignment())  # what asked for it ends with the topic (KAFKA-9478)
    c.context.remove_topic(topic)


def _release(topics: AbstractSet[str], c: Controller) -> None:
    """End the quarantine of topics that are gone, or that were created anew."""
    for topic, paths in _doubts(c).items():
        for path in paths if topic in topics else ():
            c.context.release(path)


async def _send_deletions_of_clear_topics(doubts: Mapping[str, Collection[str]], c: Controller) -> None:
    """Send the pending deletions of topics that have left quarantine: until now it was unknown whether they are due."""
    clear = {topic for topic, paths in doubts.items() if not c.context.quarantine.keys() >= {*paths}}
    if clear:
        await send_pending_deletions(sorted(c.context.live_or_shutting_down), c, topics=clear)


async def reread_topics(c: Controller, names: Collection[str]) -> None:
    """Read topic znodes again; a topic that was created anew in between is dropped and taken in as new."""
    if not names:
        return
    read, doubts = await c.store.topics.read_topics(names), _doubts(c)
    for name in read.missing & c.context.topics.keys():
        # Not watched any more: if it comes back before TopicChange looks, that one must find it new.
        _forget(name, c)
    anew = {name for name, image in read.topics.items() if _is_another(image, c)}
    for name in sorted(anew):
        log.info("found topic created anew", topic=name)
        await end_requests_of(name, c)
        c.context.remove_topic(name)
    if not doubts.keys().isdisjoint(anew):
        c.queue.put(TopicDeletion())  # it may have been requested while the earlier topic was in quarantine
    _release(read.missing | anew, c)
    await _take_in(read, c)
    await _send_deletions_of_clear_topics(doubts, c)


def _is_another(image: TopicImage, c: Controller) -> bool:
    """Whether a topic of this name is known, and was created at another time."""
    known = c.context.topics.get(image.name)
    return known is not None and known.czxid != image.czxid


async def _take_in(read: TopicsRead, c: Controller) -> None:
    """Remember what was read and start the partitions that are new."""
    quarantine(c, read.broken)
    doubtful = _doubts(c).keys() & read.topics.keys()
    mended = [name for name in read.topics if f"/brokers/topics/{name}" in c.context.quarantine]
    for name in mended:
        c.context.release(f"/brokers/topics/{name}")
    await c.outbox.write_down_slowly()  # what is written next must not look as if it were in quarantine
    images: Mapping[str, TopicImage] = await drop_late_partitions(read.topics, c)
    if await unknown_partitions(images, c) or any(known_id(c, image) != image.topic_id for image in images.values()):
        initialised = {tp for name in images for tp in c.context.partitions_of(name)}
        images = await prepare_topics(c, images, initialised)
    fresh = await unknown_partitions(images, c)  # another writer may have added partitions meanwhile
    for image in images.values():
        take_topic(c, replace(image, topic_id=known_id(c, image)))  # where the znode could not be put right
        await c.outbox.slicer.yield_to_loop()
    if fresh:
        log.info("found new partitions", topics=len({tp.topic for tp in fresh}), partitions=len(fresh))
        await on_new_partition_creation([tp for tp in fresh if c.context.find(tp) is not None], c)
    await follow_topic_znodes(images, c)
    for name in doubtful:  # reassignments that caught up meanwhile were left as they were
        expect_completion(c.context.partitions_of(name), c)
    if any(name in c.context.topics for name in mended):
        c.queue.put(TopicDeletion())  # their deletion may have been requested while they were in quarantine


def _doubts(c: Controller) -> dict[str, list[str]]:
    """The paths in quarantine, by topic."""
    doubts: defaultdict[str, list[str]] = defaultdict(list)
    for path in c.context.quarantine:
        if path.startswith(f"{_TOPICS}/"):
            doubts[path.split("/")[3]].append(path)
    return doubts


async def unknown_partitions(images: Mapping[str, TopicImage], c: Controller) -> list[TopicPartition]:
    """The partitions of these topics that are not in the context yet."""
    unknown: list[TopicPartition] = []
    for name, image in images.items():
        unknown += [tp for tp in TopicPartition.all_of(name, image.assignments) if c.context.find(tp) is None]
        await c.outbox.slicer.yield_to_loop()
    return unknown


def take_topic(c: Controller, image: TopicImage) -> None:
    """Remember a topic as it was read, but for what is wrong with it: that is left alone, visibly.

    A partition with a broker twice is left out. A reassignment that names brokers outside the replicas is not carried
    on. Of two topics with one id the younger is left out whole.
    """
    twin = c.context.topic_names.get(image.topic_id or "")
    if twin is not None and twin != image.name:
        younger = image.name if image.czxid > c.context.topics[twin].czxid else twin
        quarantine(c, [BadZnode(f"/brokers/topics/{younger}", f"has the topic id of {image.name}, {twin}")])
        if younger == image.name:
            return
        c.context.remove_topic(twin)
    sound = replace(image, assignments=_sound_assignments(c, image))
    if image.name in c.context.topics:
        c.context.put_topic(sound)
    else:
        c.context.add_topic(sound)


def _sound_assignments(c: Controller, image: TopicImage) -> dict[int, ReplicaAssignment]:
    sound = dict(image.assignments)
    if c.context.quarantine or any(map(assignment_flaw, sound.values())):
        for partition, assignment in image.assignments.items():
            _judge(c, image.name, partition, assignment_flaw(assignment), sound)
    return sound


def _judge(
    c: Controller, topic: str, partition: int, flaw: AssignmentFlaw | None, sound: dict[int, ReplicaAssignment]
) -> None:
    path = f"/brokers/topics/{topic}/partitions/{partition}"
    match flaw:
        case AssignmentFlaw.DUPLICATE_REPLICAS:
            quarantine(c, [BadZnode(path, flaw.value)])
            del sound[partition]
        case AssignmentFlaw.REASSIGNMENT_OUTSIDE_REPLICAS:
            quarantine(c, [BadZnode(path, flaw.value)])
            sound[partition] = ReplicaAssignment(sound[partition].replicas)
        case AssignmentFlaw.NO_REPLICAS | None:
            c.context.release(path)


async def on_new_partition_creation(partitions: Collection[TopicPartition], c: Controller) -> None:
    """Bring new partitions online; one that still names controllerd as a replica stays New and waits."""
    await c.partitions.handle(partitions, PartitionState.NEW)
    each = c.outbox.slicer.each
    await start_partitions([tp async for tp in each(partitions) if not names_us(c.context.assignment(tp))], c)


async def start_partitions(partitions: Collection[TopicPartition], c: Controller) -> None:
    """Give new partitions their first leaders, and start their replicas."""
    replicas: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    async for tp in c.outbox.slicer.each(partitions):
        for broker in c.context.assignment(tp).replicas:
            replicas[broker].append(tp)
    await c.replicas.handle_on(replicas, ReplicaState.NEW)
    await c.partitions.handle(partitions, PartitionState.ONLINE, Offline())
    await c.replicas.handle_on(replicas, ReplicaState.ONLINE)
