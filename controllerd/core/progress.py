"""The times at which reassignments and deletions began.

PURE. ZooKeeper does not have them. This controller knows when it saw one begin, or that it was under way before the
term.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from controllerd.core.model import TopicPartition


class Age(NamedTuple):
    """``since_ms``: wall clock at which it began; ``is_older``: it was under way when this term began, so earlier."""

    since_ms: int
    is_older: bool = False


class ProgressView:
    """The ages of reassignments and deletions. Only the publisher of the snapshot changes them."""

    def __init__(self) -> None:
        self.deletions: dict[str, Age] = {}
        """By topic, from the request of the deletion."""
        self._moving: dict[str, dict[int, Age]] = {}

    def reassignment(self, tp: TopicPartition) -> Age | None:
        """Return the age of the reassignment of a partition; None if it is not being reassigned."""
        return self._moving.get(tp.topic, {}).get(tp.partition)

    def reassignments(self) -> Iterator[TopicPartition]:
        """The partitions that are being reassigned, by topic."""
        for topic, ages in self._moving.items():
            yield from TopicPartition.all_of(topic, ages)

    def note(self, topic: str, moving: Collection[int], age: Age, *, is_deleted: bool) -> None:
        """Replace the partitions of the topic that are being reassigned; a new one has this age."""
        before = self._moving.pop(topic, {})
        if moving:
            self._moving[topic] = {partition: before.get(partition, age) for partition in moving}
        if is_deleted:
            self.deletions.setdefault(topic, age)
        else:
            self.deletions.pop(topic, None)
