"""Assignments in topic znodes: read, compared with what is known, and written once per topic for all its partitions.

A topic znode has other writers (CreatePartitions of a broker, tools), so it is read before each write, only the entries
that are meant are replaced in what it says, and the write demands the version that was read (history_58b).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.model import ReplicaAssignment, TopicImage, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import assignment_flaw
from controllerd.machines.passes import paced
from controllerd.pace import Pace
from controllerd.ports import TopicStore
from controllerd.results import WriteResult

Assignments = Mapping[TopicPartition, ReplicaAssignment]
Images = Mapping[str, TopicImage]
_PARTITIONS_OF_A_WRITE: Final = 2_000
"""More are not encoded and checked in one go."""


class AssignmentWrites:
    """Reads and writes topic znodes for reassignments."""

    def __init__(self, context: ControllerContext, store: TopicStore, pace: Pace) -> None:
        self._context = context
        self._store = store
        self._pace = pace

    async def read(self, partitions: Iterable[TopicPartition]) -> Images:
        """The znodes of their topics, without those that are gone, created anew, or cannot be understood.

        Those in quarantine are left out until the event that takes them out, even if they were mended by now.
        """
        read = await self._store.read_topics({tp.topic for tp in partitions})
        for bad in read.broken:
            self._context.put_in_quarantine(bad.path, bad.reason)
        known, quarantine = self._context.topics, self._context.quarantine
        return {
            name: image
            for name, image in read.topics.items()
            if name in known and known[name].czxid == image.czxid and f"/brokers/topics/{name}" not in quarantine
        }

    @staticmethod
    def is_as_known(images: Images, record: PartitionRecord) -> bool:
        """Whether the znode says of the partition what we know: nobody changed, broke or removed its entry."""
        image = images.get(record.tp.topic)
        return image is not None and image.assignments.get(record.tp.partition) == record.assignment

    async def foreign(
        self, images: Images, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Assignments of known partitions that are not as we know them: somebody else wrote them.

        One that is not sound is left alone, as ever.
        """
        found: dict[TopicPartition, ReplicaAssignment] = {}
        async for tp in paced(partitions, self._pace):
            image, record = images.get(tp.topic), self._context.find(tp)
            there = image.assignments.get(tp.partition) if image is not None else None
            if record is None or there is None or there == record.assignment:
                continue
            if assignment_flaw(there) is None:
                found[tp] = there
        return found

    async def write(self, images: Images, after: Assignments) -> dict[TopicPartition, WriteResult]:
        """Replace these entries; partitions whose topic has no image are left out of the result."""
        by_topic: defaultdict[str, dict[int, ReplicaAssignment]] = defaultdict(dict)
        async for tp, assignment in paced(after.items(), self._pace):
            by_topic[tp.topic][tp.partition] = assignment
        results: dict[str, WriteResult] = {}
        for part in _in_parts({name: images[name] for name in by_topic if name in images}):
            wanted = {
                name: replace(image, assignments={**image.assignments, **by_topic[name]})
                for name, image in part.items()
            }
            results.update(await self._store.write_topics(wanted))
            await self._pace.breathe()
        return {tp: results[tp.topic] async for tp in paced(after, self._pace) if tp.topic in results}


def _in_parts(images: Images) -> Iterator[Images]:
    """Topics that have a few thousand partitions together, or one that has more."""
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
