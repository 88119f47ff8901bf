"""Follows topics and partitions that are created and deleted in ZooKeeper, and starts new partitions."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.election import OfflineElection
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
    """Load the topics that only ZooKeeper has, and forget the topics that only the context has."""
    names, quarantined = await c.store.topics.read_topic_names(), _quarantined_paths(c)
    for gone in [name for name in c.context.topics if name not in names]:
        _forget(gone, c)
    _release(quarantined.keys() - names, c)
    fresh = [name for name in names if name not in c.context.topics]
    if fresh:
        await _take_in(await c.store.topics.read_topics(fresh), c)
    await _send_deletions_of_released_topics(quarantined, c)


def _forget(topic: str, c: Controller) -> None:
    """Forget a topic whose znode another writer deleted; a request for its deletion is dropped as well."""
    log.info("forgot topic", topic=topic)
    if topic in c.context.queued_for_deletion or topic in c.context.deletions.waiting:
        c.queue.put(TopicDeletion())
    if not c.context.being_reassigned.isdisjoint(c.context.partitions_of(topic)):
        c.queue.put(ZkPartitionReassignment())  # its handler removes the requests for the topic (KAFKA-9478)
    c.context.remove_topic(topic)


def _release(topics: AbstractSet[str], c: Controller) -> None:
    """End the quarantine of topics that are gone, or that were created anew."""
    for topic, paths in _quarantined_paths(c).items():
        for path in paths if topic in topics else ():
            c.context.take_out_of_quarantine(path)


async def _send_deletions_of_released_topics(quarantined: Mapping[str, Collection[str]], c: Controller) -> None:
    """Send the pending deletions of topics of which a path has left quarantine since ``quarantined`` was computed.

    While a path is in quarantine, it is unknown whether the deletions are due.
    """
    released = {topic for topic, paths in quarantined.items() if not c.context.quarantine.keys() >= {*paths}}
    if released:
        await send_pending_deletions(sorted(c.context.live_or_shutting_down), c, topics=released)


async def reread_topics(c: Controller, names: Collection[str]) -> None:
    """Read topic znodes again; a topic that was created anew in between is forgotten and loaded as a new one."""
    if not names:
        return
    read, quarantined = await c.store.topics.read_topics(names), _quarantined_paths(c)
    for name in read.missing & c.context.topics.keys():
        # The znode is not watched any more. If the topic is created anew before TopicChange is handled, it must count
        # as new there.
        _forget(name, c)
    anew = {name for name, image in read.topics.items() if _is_another(image, c)}
    for name in sorted(anew):
        log.info("found topic created anew", topic=name)
        await end_requests_of(name, c)
        c.context.remove_topic(name)
    if not quarantined.keys().isdisjoint(anew):
        c.queue.put(TopicDeletion())  # it may have been requested while the earlier topic was in quarantine
    _release(read.missing | anew, c)
    await _take_in(read, c)
    await _send_deletions_of_released_topics(quarantined, c)


def _is_another(image: TopicImage, c: Controller) -> bool:
    """Whether the context has an earlier topic of this name, which was deleted and created anew."""
    known = c.context.topics.get(image.name)
    return known is not None and known.czxid != image.czxid


async def _take_in(read: TopicsRead, c: Controller) -> None:
    """Put topics as they were read into the context, start new partitions, and follow changed assignments."""
    quarantine(c, read.broken)
    quarantined = _quarantined_paths(c).keys() & read.topics.keys()
    repaired = [name for name in read.topics if f"/brokers/topics/{name}" in c.context.quarantine]
    for name in repaired:
        c.context.take_out_of_quarantine(f"/brokers/topics/{name}")
    # The release is recorded first: in the audit log, no later write may seem to touch a znode in quarantine.
    await c.outbox.write_down_slowly()
    images: Mapping[str, TopicImage] = await drop_late_partitions(read.topics, c)
    if await unknown_partitions(images, c) or any(known_id(c, image) != image.topic_id for image in images.values()):
        initialised = {tp for name in images for tp in c.context.partitions_of(name)}
        images = await prepare_topics(c, images, initialised)
    fresh = await unknown_partitions(images, c)  # another writer may have added partitions meanwhile
    for image in images.values():
        take_topic(c, replace(image, topic_id=known_id(c, image)))  # even if the znode could not be corrected
        await c.outbox.slicer.yield_to_loop()
    if fresh:
        log.info("found new partitions", topics=len({tp.topic for tp in fresh}), partitions=len(fresh))
        await on_new_partition_creation([tp for tp in fresh if c.context.find(tp) is not None], c)
    await follow_topic_znodes(images, c)
    for name in quarantined:  # a reassignment that caught up while the topic was in quarantine was not completed
        expect_completion(c.context.partitions_of(name), c)
    if any(name in c.context.topics for name in repaired):
        c.queue.put(TopicDeletion())  # their deletion may have been requested while they were in quarantine


def _quarantined_paths(c: Controller) -> dict[str, list[str]]:
    """The paths in quarantine, by topic."""
    quarantined: defaultdict[str, list[str]] = defaultdict(list)
    for path in c.context.quarantine:
        if path.startswith(f"{_TOPICS}/"):
            quarantined[path.split("/")[3]].append(path)
    return quarantined


async def unknown_partitions(images: Mapping[str, TopicImage], c: Controller) -> list[TopicPartition]:
    """The partitions of these topics that are not in the context yet."""
    unknown: list[TopicPartition] = []
    for name, image in images.items():
        unknown += [tp for tp in TopicPartition.all_of(name, image.assignments) if c.context.find(tp) is None]
        await c.outbox.slicer.yield_to_loop()
    return unknown


def take_topic(c: Controller, image: TopicImage) -> None:
    """Put a topic as it was read into the context; a flaw of it is put in quarantine and left out.

    A partition whose replicas name a broker twice is left out. If a reassignment names brokers outside the replicas,
    the partition counts as not being reassigned. Of two topics with the same id, the younger is left out.
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
            _apply_flaw(c, image.name, partition, assignment_flaw(assignment), sound)
    return sound


def _apply_flaw(
    c: Controller, topic: str, partition: int, flaw: AssignmentFlaw | None, sound: dict[int, ReplicaAssignment]
) -> None:
    """Put the partition in quarantine or release it, and correct its assignment in ``sound``."""
    path = f"/brokers/topics/{topic}/partitions/{partition}"
    match flaw:
        case AssignmentFlaw.DUPLICATE_REPLICAS:
            quarantine(c, [BadZnode(path, flaw.value)])
            del sound[partition]
        case AssignmentFlaw.REASSIGNMENT_OUTSIDE_REPLICAS:
            quarantine(c, [BadZnode(path, flaw.value)])
            sound[partition] = ReplicaAssignment(sound[partition].replicas)
        case AssignmentFlaw.NO_REPLICAS | None:
            c.context.take_out_of_quarantine(path)


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
    await c.partitions.handle(partitions, PartitionState.ONLINE, OfflineElection())
    await c.replicas.handle_on(replicas, ReplicaState.ONLINE)
