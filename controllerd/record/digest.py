"""A short digest of the whole state of the cluster, equal whether the daemon or a replay computes it. Pure.

Each topic has a hash over a canonical text. The sum of the hashes does not depend on an order, and an update costs only
the topics that changed. The states of replicas are left out, because the snapshot that the daemon publishes lacks them.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from controllerd.core.model import LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.phrases import names_of
from controllerd.record.records import Record, SnapshotBegin
from controllerd.record.state import ClusterState, FoldedPartition

Row = tuple[int, PartitionState, ReplicaAssignment, LeaderAndIsr | None]
"""One partition: its number, state, assignment and leadership; the first four fields of a ``PartitionView``."""

DIGEST_KINDS: Final = frozenset(record for record, kind in DESCRIPTIONS.items() if kind.in_digest)
"""The kinds that change what the digest has of a topic."""
_BYTES: Final = 8
_MODULUS: Final = 2 ** (8 * _BYTES)


def topic_digest(name: str, topic_id: str | None, rows: Iterable[Row]) -> int:
    """The hash of one topic, below 2**64; ``rows`` in any order."""
    lines = [_line(*row) for row in sorted(rows, key=_number)]
    return _hash("\n".join([f"topic {name} {topic_id}", *lines]))


def cluster_digest(topics: int, brokers: Mapping[int, int], shutting_down: Iterable[int]) -> str:
    """The digest of a cluster, 16 hexadecimal digits.

    :param topics: the sum of the hashes of its topics
    :param brokers: the broker epochs by the ids of registered brokers
    """
    total = topics
    total += sum(_hash(f"broker {broker} {epoch}") for broker, epoch in brokers.items())
    total += sum(_hash(f"shutting down {broker}") for broker in shutting_down)
    return f"{total % _MODULUS:0{2 * _BYTES}x}"


class RunningDigest:
    """The sum of the hashes of topics, updated topic by topic."""

    def __init__(self) -> None:
        self._topics: dict[str, int] = {}
        self._total = 0

    def update(self, name: str, topic_id: str | None, rows: Iterable[Row]) -> None:
        """Add or replace a topic."""
        now = topic_digest(name, topic_id, rows)
        self._total += now - self._topics.get(name, 0)
        self._topics[name] = now

    def forget(self, name: str) -> None:
        """Remove a topic; an unknown topic is ignored."""
        self._total -= self._topics.pop(name, 0)

    def names(self) -> Iterable[str]:
        """The topics in the digest."""
        return self._topics.keys()

    def of(self, brokers: Mapping[int, int], shutting_down: Iterable[int]) -> str:
        """The digest of the cluster with these brokers; see ``cluster_digest``."""
        return cluster_digest(self._total, brokers, shutting_down)


class FoldDigest:
    """The digest of a folded state. Only topics that records have changed are hashed again."""

    def __init__(self) -> None:
        self._running = RunningDigest()
        self._touched: set[str] = set()

    def add(self, record: Record) -> None:
        """Note the topics that the next record of the fold changes."""
        if isinstance(record, SnapshotBegin):
            self._touched.update(self._running.names())
        elif type(record) in DIGEST_KINDS:
            self._touched.update(names_of(record))

    def of(self, state: ClusterState) -> str:
        """The digest of ``state``, which must be the state after all records so far."""
        for name in self._touched:
            topic = state.topics.get(name)
            if topic is None:
                self._running.forget(name)
            else:
                self._running.update(name, topic.topic_id, _rows(topic.partitions))
        self._touched.clear()
        return self._running.of(_epochs(state), state.shutting_down)


def digest_of(state: ClusterState) -> str:
    """The digest of a folded state, computed anew."""
    running = RunningDigest()
    for name, topic in state.topics.items():
        running.update(name, topic.topic_id, _rows(topic.partitions))
    return running.of(_epochs(state), state.shutting_down)


def _rows(partitions: Mapping[int, FoldedPartition]) -> Iterable[Row]:
    return [(number, known.state, known.assignment, known.leadership) for number, known in partitions.items()]


def _epochs(state: ClusterState) -> dict[int, int]:
    return {broker: row.epoch for broker, row in state.brokers.items()}


def _number(row: Row) -> int:
    return row[0]


def _line(number: int, state: PartitionState, assignment: ReplicaAssignment, leadership: LeaderAndIsr | None) -> str:
    replicas, adding, removing = assignment
    text = f"{number} {state._value_} {replicas} {adding} {removing}"  # ``value`` is a Python call
    if leadership is None:
        return text
    leader, leader_epoch, isr, controller_epoch, partition_epoch, recovery = leadership
    return f"{text} {leader} {leader_epoch} {isr} {controller_epoch} {partition_epoch} {recovery._value_}"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest(), "big")
