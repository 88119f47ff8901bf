"""Since when reassignments and deletions are under way.

PURE. ZooKeeper does not say it: known is when this controller saw each begin, or that it was there before its term.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from controllerd.core.model import TopicPartition


class Age(NamedTuple):
    """``since_ms``: wall clock at which it began; ``is_older``: it was under way when this term began, so earlier."""

    since_ms: int
    is_older: bool = False


class ProgressView:
    """The ages of what is under way. Changed by the publisher of the snapshot alone."""

    def __init__(self) -> None:
        self.deletions: dict[str, Age] = {}
        """By topic, from the moment at which the deletion was asked for."""
        self._moving: dict[str, dict[int, Age]] = {}

    def reassignment(self, tp: TopicPartition) -> Age | None:
        """Since when a partition is being reassigned; None if it is not."""
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
