"""Records of topics and partitions, and the indexes over partitions. Only the context changes them.

Indexes are dictionaries, which keep the order in which partitions were loaded. So requests and snapshots that are built
from them have the partitions topic by topic, which is fast to encode and to cache, and in the same order in every run.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from controllerd.core.model import (
    NO_EPOCH,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    TopicImage,
    TopicPartition,
)
from controllerd.core.replica_states import ReplicaStates

_WAITING: Final = frozenset({PartitionState.NEW, PartitionState.OFFLINE})


class PartitionRecord:
    """Everything known of one partition. Changed by the context alone."""

    __slots__ = ("assignment", "leadership", "loaded_epoch", "replica_states", "sent_epoch", "state", "tp")

    def __init__(self, tp: TopicPartition, assignment: ReplicaAssignment, replica_states: ReplicaStates) -> None:
        self.tp: Final = tp
        self.assignment = assignment
        self.leadership: LeaderAndIsr | None = None
        self.state = PartitionState.NON_EXISTENT
        self.replica_states = replica_states
        self.loaded_epoch = NO_EPOCH
        """The leader epoch that an earlier term wrote and this term loaded; ``NO_EPOCH`` if there was no state."""
        self.sent_epoch = NO_EPOCH
        """The highest leader epoch that was sent to brokers in this term; it never falls (I-10)."""


class TopicRecord:
    """Everything known of one topic's znode; ``extra`` are its unknown fields."""

    __slots__ = ("czxid", "extra", "format_version", "partitions", "topic_id", "znode_version")

    def __init__(self, image: TopicImage) -> None:
        self.topic_id = image.topic_id
        self.znode_version = image.znode_version
        self.format_version = image.format_version
        self.extra = image.extra
        self.czxid = image.czxid
        self.partitions: dict[int, PartitionRecord] = {}


Records = Mapping[TopicPartition, PartitionRecord]
_NOTHING: Final[Records] = {}


class Indexes:
    """Partitions by broker and by leader, those that wait to go online, and those that are being reassigned."""

    def __init__(self) -> None:
        self._on_broker: defaultdict[BrokerId, dict[TopicPartition, PartitionRecord]] = defaultdict(dict)
        self._led_by: defaultdict[BrokerId, dict[TopicPartition, PartitionRecord]] = defaultdict(dict)
        self.waiting: dict[TopicPartition, PartitionRecord] = {}
        self.being_reassigned: set[TopicPartition] = set()

    def on(self, broker: BrokerId) -> Records:
        """The partitions with a replica on this broker."""
        return self._on_broker.get(broker, _NOTHING)

    def holders(self) -> set[BrokerId]:
        """The brokers that host a partition."""
        return {broker for broker, hosted in self._on_broker.items() if hosted}

    def led_by(self, leader: BrokerId) -> Records:
        """The partitions whose cached leader this is (-1: those without leader)."""
        return self._led_by.get(leader, _NOTHING)

    def by_leader(self) -> Iterator[tuple[BrokerId, Records]]:
        """Yield each leader with the partitions that it leads."""
        yield from self._led_by.items()

    def assigned(self, record: PartitionRecord, before: Sequence[BrokerId]) -> None:
        """Update the indexes for the new assignment of a record; ``before`` are its former replicas."""
        tp, (replicas, adding, removing) = record.tp, record.assignment
        for broker in before:
            if broker not in replicas:
                self._on_broker[broker].pop(tp, None)
        for broker in replicas:
            self._on_broker[broker][tp] = record
        if adding or removing:
            self.being_reassigned.add(tp)
        elif before:
            self.being_reassigned.discard(tp)

    def led(self, record: PartitionRecord, before: LeaderAndIsr | None, leader: BrokerId) -> None:
        """Update the indexes for the new leader of a record."""
        if before is not None:
            self._led_by[before.leader].pop(record.tp, None)
        self._led_by[leader][record.tp] = record

    def moved(self, records: Iterable[PartitionRecord], state: PartitionState) -> None:
        """Update the indexes for records that are in this state now."""
        if state in _WAITING:
            self.waiting.update((record.tp, record) for record in records)
        else:
            for record in records:
                self.waiting.pop(record.tp, None)

    def forget(self, record: PartitionRecord) -> None:
        """Remove a partition from the indexes."""
        for broker in record.assignment.replicas:
            self._on_broker[broker].pop(record.tp, None)
        if record.leadership is not None:
            self._led_by[record.leadership.leader].pop(record.tp, None)
        self.waiting.pop(record.tp, None)
        self.being_reassigned.discard(record.tp)
