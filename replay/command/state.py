"""The state of the cluster at a moment, as a document, and the differences between two of them."""

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

from controllerd.record.state import ClusterState, FoldedPartition
from controllerd.record.travel import Moment


@dataclass(frozen=True, slots=True)
class BrokerAt:
    """One live broker."""

    id: int
    epoch: int
    rack: str | None
    is_shutting_down: bool


@dataclass(frozen=True, slots=True)
class PartitionAt:
    """One partition; without a state znode it has leader and leader epoch -1."""

    topic: str
    partition: int
    state: str
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class StateAt:
    """The state of the cluster after one record, with the position of that record in the log."""

    cluster: str
    node: int
    boot: str
    epoch: int
    seq: int
    ts_ms: int
    controller_epoch: int
    """Epoch of the current term; 0: no controller of these logs was in a term."""
    brokers: list[BrokerAt]
    deletions: dict[str, str | None]
    """Topics whose deletion was requested, each with the reasons that block it."""
    quarantine: dict[str, str]
    partitions: list[PartitionAt]


def document(moment: Moment, topics: str = "*") -> StateAt:
    """Return the state as a document, with the partitions of topics that match the glob."""
    state, at = moment
    return StateAt(
        at.cluster,
        at.node,
        at.boot,
        at.epoch,
        at.seq,
        at.ts_ms,
        state.controller_epoch,
        [
            BrokerAt(int(broker), row.epoch, row.rack, broker in state.shutting_down)
            for broker, row in sorted(state.brokers.items())
        ],
        {name: deletion.halted for name, deletion in sorted(state.deletions.items())},
        dict(sorted(state.quarantine.items())),
        list(_partitions(state, topics)),
    )


def _partitions(state: ClusterState, topics: str) -> Iterator[PartitionAt]:
    for name in sorted(state.topics):
        if fnmatch.fnmatchcase(name, topics):
            for number, partition in sorted(state.topics[name].partitions.items()):
                yield _partition(name, number, partition)


def _partition(name: str, number: int, folded: FoldedPartition) -> PartitionAt:
    leadership, assignment = folded.leadership, folded.assignment
    return PartitionAt(
        name,
        number,
        folded.state.value,
        int(leadership.leader) if leadership is not None else -1,
        leadership.leader_epoch if leadership is not None else -1,
        [int(broker) for broker in leadership.isr] if leadership is not None else [],
        [int(broker) for broker in assignment.replicas],
        [int(broker) for broker in assignment.adding],
        [int(broker) for broker in assignment.removing],
        leadership.partition_epoch if leadership is not None else -1,
    )


@dataclass(frozen=True, slots=True)
class StateDifference:
    """One difference; ``before`` or ``after`` is None if the subject did not exist."""

    subject: str
    field: str
    before: str | None
    after: str | None


def differences(before: StateAt, after: StateAt) -> Iterator[StateDifference]:
    """Yield the differences between two times: brokers first, then the partitions in order."""
    yield from _compare(_brokers(before), _brokers(after))
    yield from _compare(_subjects(before), _subjects(after))


def _brokers(state: StateAt) -> dict[str, dict[str, object]]:
    return {
        f"broker {broker.id}": {"epoch": broker.epoch, "shutting down": broker.is_shutting_down}
        for broker in state.brokers
    }


def _subjects(state: StateAt) -> dict[str, dict[str, object]]:
    return {
        f"{row.topic}-{row.partition}": {
            "state": row.state,
            "leader": row.leader,
            "leader epoch": row.leader_epoch,
            "isr": row.isr,
            "replicas": row.replicas,
            "adding": row.adding,
            "removing": row.removing,
        }
        for row in state.partitions
    }


def _compare(before: dict[str, dict[str, object]], after: dict[str, dict[str, object]]) -> Iterator[StateDifference]:
    for subject in (*before, *(new for new in after if new not in before)):
        old, new = before.get(subject), after.get(subject)
        if old is None or new is None:
            yield StateDifference(
                subject, "exists", "yes" if old is not None else None, "yes" if new is not None else None
            )
            continue
        for field, value in old.items():
            if value != new[field]:
                yield StateDifference(subject, field, str(value), str(new[field]))
