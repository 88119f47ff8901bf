"""Assignments in topic znodes: read, compared with the context, and written once per topic for all its partitions.

A topic znode has other writers (CreatePartitions of a broker, tools). So it is read before each write, only the entries
of the partitions that change are replaced, and the write demands the version that was read: an entry that another
writer changed meanwhile is not written over.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.core.reassignment import dropped, loss_by_dropping
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import assignment_flaw
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.ports.results import WriteResult

Assignments = Mapping[TopicPartition, ReplicaAssignment]
Images = Mapping[str, TopicImage]
_PARTITIONS_OF_A_WRITE: Final = 2_000
"""Partitions that are encoded and checked before the event loop gets a turn."""


class Move(NamedTuple):
    """A partition with the assignment before and after, and what the change does to its replicas."""

    record: PartitionRecord
    before: ReplicaAssignment
    after: ReplicaAssignment

    @property
    def dropped(self) -> tuple[BrokerId, ...]:
        """The replicas that the new assignment no longer names, and that are stopped at once."""
        return dropped(self.before, self.after)

    @property
    def called_off(self) -> list[BrokerId]:
        """The dropped replicas that were being added."""
        return [broker for broker in self.dropped if broker in self.before.adding]

    @property
    def forgotten(self) -> list[BrokerId]:
        """The dropped replicas that were not being added."""
        return [broker for broker in self.dropped if broker not in self.before.adding]

    @property
    def newcomers(self) -> list[BrokerId]:
        """The replicas that were not there before and are not being added either."""
        known = {*self.before.replicas, *self.after.adding}
        return [broker for broker in self.after.replicas if broker not in known]


def loss_by(
    context: ControllerContext, record: PartitionRecord, gone: Collection[BrokerId], after: ReplicaAssignment
) -> str | None:
    """Why the partition cannot lose these replicas as it is now, or None (KAFKA-14808)."""
    if not gone or record.leadership is None:
        return None
    return loss_by_dropping(gone, after, record.leadership, context.liveness.online(record))


class AssignmentWrites:
    """Reads and writes topic znodes for reassignments."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def read(self, partitions: Iterable[TopicPartition]) -> Images:
        """Read the znodes of the partitions' topics.

        Left out are topics that are gone, created anew, or cannot be parsed. A topic in quarantine is left out until
        an event has taken it out, even if its znode has been repaired by now.
        """
        read = await self._deps.store.topics.read_topics({tp.topic for tp in partitions})
        for bad in read.broken:
            self._deps.context.put_in_quarantine(bad.path, bad.reason)
        known, quarantine = self._deps.context.topics, self._deps.context.quarantine
        return {
            name: image
            for name, image in read.topics.items()
            if name in known and known[name].czxid == image.czxid and f"/brokers/topics/{name}" not in quarantine
        }

    @staticmethod
    def is_as_known(images: Images, record: PartitionRecord) -> bool:
        """Whether the znode has the assignment that the context has: no other writer changed or removed the entry."""
        image = images.get(record.tp.topic)
        return image is not None and image.assignments.get(record.tp.partition) == record.assignment

    async def foreign(
        self, images: Images, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """The assignments of known partitions that another writer changed; an unsound assignment is left alone."""
        found: dict[TopicPartition, ReplicaAssignment] = {}
        async for tp in self._deps.slicer.each(partitions):
            image, record = images.get(tp.topic), self._deps.context.find(tp)
            there = image.assignments.get(tp.partition) if image is not None else None
            if record is None or there is None or there == record.assignment:
                continue
            if assignment_flaw(there) is None:
                found[tp] = there
        return found

    async def write(self, images: Images, after: Assignments) -> dict[TopicPartition, WriteResult]:
        """Replace these entries; partitions whose topic has no image are left out of the result."""
        by_topic: defaultdict[str, dict[int, ReplicaAssignment]] = defaultdict(dict)
        async for tp, assignment in self._deps.slicer.each(after.items()):
            by_topic[tp.topic][tp.partition] = assignment
        results: dict[str, WriteResult] = {}
        for part in _in_parts({name: images[name] for name in by_topic if name in images}):
            wanted = {
                name: replace(image, assignments={**image.assignments, **by_topic[name]})
                for name, image in part.items()
            }
            results.update(await self._deps.store.topics.write_topics(wanted))
            await self._deps.slicer.yield_to_loop()
        return {tp: results[tp.topic] async for tp in self._deps.slicer.each(after) if tp.topic in results}


def _in_parts(images: Images) -> Iterator[Images]:
    """Divide the topics into parts of a few thousand partitions; a larger topic is a part of its own."""
    part: dict[str, TopicImage] = {}
    size = 0
    for name, image in images.items():
        if part and size + len(image.assignments) > _PARTITIONS_OF_A_WRITE:
            yield part
            part, size = {}, 0
        part[name] = image
        size += len(image.assignments)
    if part:
        yield part
