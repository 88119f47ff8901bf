"""Prepares topics before their partitions start: gives them an id, and replicas on brokers in place of controllerd."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import structlog

from controllerd.controller import Controller
from controllerd.core.model import TopicImage, TopicPartition
from controllerd.core.sanitizer import names_us, sanitize_topic
from controllerd.core.text import counted
from controllerd.ports.results import Conflict, TopicsRead, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine

log = structlog.get_logger(__name__)


async def prepare_topics(
    c: Controller, images: Mapping[str, TopicImage], initialised: AbstractSet[TopicPartition]
) -> Mapping[str, TopicImage]:
    """Give ids to topics without one and keep our own node id out of assignments, in one compared write per topic.

    Returns the images as they are in ZooKeeper afterwards; a topic that another writer changed meanwhile is read again.
    """
    done = dict(images)
    pending: Mapping[str, TopicImage] = images
    while wanted := await _corrections(c, pending, initialised):
        results = await c.store.topics.write_topics(wanted)
        again = set()
        for name, result in results.items():
            if isinstance(result, Written):
                done[name] = replace(wanted[name], znode_version=result.version)
            elif isinstance(result, Conflict):
                again.add(name)
            else:
                c.audit.record(AlarmRecord("topic znode was not written", f"{name}: {result.reason}"))
        read = await c.store.topics.read_topics(again) if again else TopicsRead({})
        quarantine(c, read.broken)
        for name in again:
            done.pop(name)
        done.update(read.topics)
        pending = read.topics
    return done


def needs_correction(c: Controller, image: TopicImage) -> bool:
    """Whether the topic lacks an id that it should have, has lost its own, or names us among its replicas."""
    lacks_id = image.topic_id is None and c.context.features.topic_ids
    return lacks_id or known_id(c, image) != image.topic_id or any(map(names_us, {*image.assignments.values()}))


def known_id(c: Controller, image: TopicImage) -> str | None:
    """The id that brokers have for this very topic, even if its znode has another now.

    Brokers keep the id beside the log and refuse every other id for good (KIP-516). So the id that brokers have counts,
    and not the one of a tool that rewrites the znode with another id or with none.
    """
    known = c.context.topics.get(image.name)
    if known is None or known.czxid != image.czxid or known.topic_id is None:
        return image.topic_id
    return known.topic_id


def keep_id(c: Controller, image: TopicImage) -> TopicImage:
    """Return the image with the id that brokers have; raise an alarm if the znode has another."""
    kept = known_id(c, image)
    if kept == image.topic_id:
        return image
    detail = f"/brokers/topics/{image.name}: {image.topic_id} instead of {kept}, which is kept"
    c.audit.record(AlarmRecord("topic id was changed in ZooKeeper", detail))
    log.error("found topic id changed in zookeeper", topic=image.name, kept=kept, found=image.topic_id)
    return replace(image, topic_id=kept)


async def _corrections(
    c: Controller, images: Mapping[str, TopicImage], initialised: AbstractSet[TopicPartition]
) -> dict[str, TopicImage]:
    wanted = {}
    for name, image in images.items():
        await c.outbox.slicer.yield_to_loop()
        if not needs_correction(c, image):
            continue
        corrected = _sanitized(c, keep_id(c, image), initialised)
        if corrected.topic_id is None and c.context.features.topic_ids:
            corrected = replace(corrected, topic_id=c.runtime.new_topic_id())
        if corrected is not image:
            wanted[name] = corrected
    return wanted


def _report_waiting(c: Controller, topic: str, waiting: Collection[int]) -> None:
    """Log that partitions wait, and raise an alarm when the wait of one begins, but not at each later broker start."""
    partitions = len(waiting)
    named = f"{counted(partitions, 'partition')} {'has' if partitions == 1 else 'have'} a replica on controllerd"
    log.warning("kept topic waiting for live brokers", topic=topic, partitions=partitions)
    if any(TopicPartition(topic, partition) not in c.context for partition in waiting):
        detail = f"{topic}: {named}, and no live broker is without one to take it"
        c.audit.record(AlarmRecord("topic waits for brokers", detail))


def _sanitized(c: Controller, image: TopicImage, initialised: AbstractSet[TopicPartition]) -> TopicImage:
    fresh = {p: a for p, a in image.assignments.items() if TopicPartition(image.name, p) not in initialised}
    load = {broker: len(c.context.partitions_on(broker)) for broker in sorted(c.context.live)}
    racks = {broker.id: broker.rack for broker in c.context.brokers.values() if broker.rack is not None}
    outcome = sanitize_topic(fresh, load, racks=racks)
    if outcome.waiting:
        _report_waiting(c, image.name, outcome.waiting)
    if not outcome.changed:
        return image
    log.info("replaced controllerd in an assignment", topic=image.name, partitions=len(outcome.changed))
    return replace(image, assignments={**image.assignments, **outcome.changed})
