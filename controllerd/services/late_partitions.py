"""Partitions that are added to a topic while it is being deleted: they are dropped before they start.

Otherwise the deletion would know nothing of them, and leave them behind (KAFKA-6612).
"""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from controllerd.controller import Controller
from controllerd.core.model import TopicImage, TopicPartition
from controllerd.ports.results import Conflict, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine
from events.topics import PartitionModifications

log = structlog.get_logger(__name__)

Images = Mapping[str, TopicImage]


async def drop_late_partitions(images: Images, c: Controller) -> Images:
    """Remove added partitions from the znodes of topics that are being deleted; returns all topics without them.

    The write demands the version that was read, and keeps everything else. A partition that has a folder in ZooKeeper
    is left in the znode: another controller has initialised it, so that it is no late addition. Topics that are not
    being deleted are returned unchanged.
    """
    deleted = {name: image for name, image in images.items() if name in c.context.queued_for_deletion}
    if not deleted:
        return images
    pending: Images = deleted
    while late := {name: image for name, image in pending.items() if _unknown(image, c)}:
        pending = await _restore(late, deleted, c)
        deleted |= pending
    return {name: image for name, image in images.items() if name not in c.context.queued_for_deletion} | {
        name: _as_known(image, c) for name, image in deleted.items()
    }


def _unknown(image: TopicImage, c: Controller) -> set[int]:
    return {number for number in image.assignments if TopicPartition(image.name, number) not in c.context}


def _as_known(image: TopicImage, c: Controller) -> TopicImage:
    unknown = _unknown(image, c)
    return replace(image, assignments={p: a for p, a in image.assignments.items() if p not in unknown})


async def _restore(late: Images, done: dict[str, TopicImage], c: Controller) -> Images:
    """Write once; returns the topics that another writer changed meanwhile, as they are now."""
    folders = await c.store.topics.read_partition_folders(late)
    wanted = {name: _without(image, _unknown(image, c) - folders[name]) for name, image in late.items()}
    wanted = {name: image for name, image in wanted.items() if image != late[name]}
    again = set()
    for name, result in (await c.store.topics.write_topics(wanted)).items() if wanted else ():
        dropped = sorted(late[name].assignments.keys() - wanted[name].assignments.keys())
        if isinstance(result, Written):
            log.info("dropped partitions of a topic that is being deleted", topic=name, partitions=dropped)
            done[name] = replace(wanted[name], znode_version=result.version)
        elif isinstance(result, Conflict):
            again.add(name)
        else:
            c.audit.record(AlarmRecord("topic znode was not written", f"{name}: {result.reason}"))
    return await _read_again(again, done, c)


def _without(image: TopicImage, dropped: set[int]) -> TopicImage:
    return replace(image, assignments={p: a for p, a in image.assignments.items() if p not in dropped})


async def _read_again(names: set[str], done: dict[str, TopicImage], c: Controller) -> Images:
    if not names:
        return {}
    read = await c.store.topics.read_topics(names)
    quarantine(c, read.broken)
    for name in names:
        done.pop(name)
    same = {name: image for name, image in read.topics.items() if c.context.topics[name].czxid == image.czxid}
    for name in names - same.keys():  # gone, broken, or another topic of that name by now
        c.queue.put(PartitionModifications(name))
    return same
