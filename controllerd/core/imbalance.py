"""The partitions that their preferred replica does not lead, and the brokers with too many of them.

The preferred replica of a partition is the first assigned one; while the partition is reassigned, the first of its
targets. Topics that are being deleted do not count: the caller leaves them out.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from controllerd.core.liveness import Liveness
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment
from controllerd.core.records import PartitionRecord

_PERCENT: Final = 100


class Imbalance:
    """Counts partitions by preferred replica, a slice of partitions at a time."""

    def __init__(self) -> None:
        self._preferred: dict[BrokerId, int] = {}
        self._led_by_others: dict[BrokerId, list[PartitionRecord]] = {}

    def add(self, records: Iterable[PartitionRecord]) -> None:
        """Count these partitions; one without leader counts for its broker, but not as led by another broker."""
        preferred, led_by_others = self._preferred, self._led_by_others
        for record in records:
            replicas, leadership = record.assignment.replicas, record.leadership
            if not replicas:
                continue
            broker = replicas[0]
            preferred[broker] = preferred.get(broker, 0) + 1
            if leadership is not None and leadership.leader != broker:
                led_by_others.setdefault(broker, []).append(record)

    def above(self, percentage: int) -> Iterator[tuple[BrokerId, list[PartitionRecord]]]:
        """Yield the brokers that do not lead more than this share of their preferred partitions, and the partitions."""
        for broker, records in sorted(self._led_by_others.items()):
            if len(records) * _PERCENT > percentage * self._preferred[broker]:
                yield broker, records


def can_lead(record: PartitionRecord, liveness: Liveness) -> bool:
    """Whether the preferred replica would win an election: it is online and in the ISR (KAFKA-9866).

    Neither other partitions nor a reassignment of this one are considered (KAFKA-10149).
    """
    leadership = record.leadership
    preferred = record.assignment.replicas[0]
    return leadership is not None and preferred in leadership.isr and preferred in liveness.online(record)


class AssignedPartition(Protocol):
    """The assignment and the leadership of a partition, in the context or in a snapshot."""

    @property
    def assignment(self) -> ReplicaAssignment:
        """The replicas of the partition."""
        ...

    @property
    def leadership(self) -> LeaderAndIsr | None:
        """The content of the state znode; None while it does not exist."""
        ...


def is_imbalanced(partition: AssignedPartition) -> bool:
    """Whether the partition counts for PreferredReplicaImbalanceCount.

    A preferred replica that is only being added need not lead before it has caught up.
    """
    (replicas, adding, _), leadership = partition.assignment, partition.leadership
    if leadership is None or not replicas or leadership.leader == replicas[0]:
        return False
    return replicas[0] not in adding or replicas[0] in leadership.isr
