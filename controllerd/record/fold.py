"""Rebuilds the controller's state of the cluster from the audit log, and compares it with ZooKeeper. Pure.

Each epoch begins with a snapshot and may have periodic ones, so a fold may begin at any ``SnapshotBegin``. Before the
first snapshot, records about unknown topics have no effect. ``record.families`` describes each kind of record, together
with the function that applies it; ``FOLDS`` has that function by type of record.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controllerd.core.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.record.envelope import Envelope
from controllerd.record.kinds import FOLDS
from controllerd.record.records import Record
from controllerd.record.state import ClusterState


def apply(state: ClusterState, envelope: Envelope, record: Record) -> None:
    """Apply a record to the state. A record that changes nothing only sets ``seq`` and ``ts_ms``."""
    state.seq, state.ts_ms = envelope.seq, envelope.ts_ms
    fold = FOLDS.get(type(record))
    if fold is not None:
        fold(state, record)


# -- comparing with ZooKeeper ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observed:
    """The state read from ZooKeeper. A partition without a state znode is absent from ``leaderships``."""

    topic_ids: Mapping[str, str | None]
    assignments: Mapping[TopicPartition, ReplicaAssignment]
    leaderships: Mapping[TopicPartition, LeaderAndIsr]


def diff_with_zookeeper(state: ClusterState, observed: Observed) -> list[str]:
    """The differences between the folded state and ZooKeeper as sentences, in a stable order; empty when equal."""
    return [
        *_differences("topic", "id", state.topic_ids(), observed.topic_ids),
        *_differences("partition", "assignment", state.assignments(), observed.assignments),
        *_differences("partition", "leadership", state.leaderships(), observed.leaderships),
    ]


def _differences(noun: str, what: str, folded: Mapping[Any, Any], found: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted(folded.keys() | found.keys()):
        if key not in found:
            yield f"{noun} {key} has the {what} {folded[key]} in the log and none in ZooKeeper"
        elif key not in folded:
            yield f"{noun} {key} has the {what} {found[key]} in ZooKeeper and none in the log"
        elif folded[key] != found[key]:
            yield f"{noun} {key} has the {what} {folded[key]} in the log and {found[key]} in ZooKeeper"
