"""Kinds about single partitions: leaderships, states, decisions of elections, and refusals."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from controllerd.core.model import (
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionState,
    ReplicaState,
    TopicPartition,
)
from controllerd.record.description import RecordKind, Touched
from controllerd.record.facts import PARTITION, Facts, many_rows
from controllerd.record.phrases import because, partitions_phrase, tally, transitions_phrase
from controllerd.record.records import (
    DecisionRecord,
    LeadershipRecord,
    PartitionStateRecord,
    RefusedRecord,
    ReplicaStateRecord,
)
from controllerd.record.state import ClusterState, broker_ids


def _leadership_sentence(record: LeadershipRecord) -> str:
    if len(record.leaders) == 1:
        name, leader = partitions_phrase(record), record.leaders[0]
        led = f"{name} has no leader" if leader == NO_LEADER else f"broker {leader} leads {name}"
        return f"{led}, isr {record.isrs[0]}, leader epoch {record.leader_epochs[0]}"
    lost = record.leaders.count(NO_LEADER)
    return f"leadership of {partitions_phrase(record)}" + (f", {lost} without leader" if lost else "")


def leaderships_of(record: LeadershipRecord) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    """The rows of the record as values."""
    for index, (topic, number) in enumerate(zip(record.topics, record.partitions, strict=True)):
        yield TopicPartition(topic, number), leadership_of(record, index)


def leadership_of(record: LeadershipRecord, index: int) -> LeaderAndIsr:
    """One row of the record as a value."""
    return LeaderAndIsr(
        BrokerId(record.leaders[index]),
        record.leader_epochs[index],
        broker_ids(record.isrs[index]),
        record.controller_epochs[index],
        record.partition_epochs[index],
        LeaderRecoveryState(record.recovery_states[index]),
    )


def _fold_leadership(state: ClusterState, record: LeadershipRecord) -> None:
    for tp, leadership in leaderships_of(record):
        partition = state.partition(tp)
        if partition is not None:
            partition.leadership = leadership


_LEADERSHIP: Final = ("leader", "leader_epoch", "isr", "state_epoch", "partition_epoch", "recovery")

LEADERSHIP: Final = RecordKind(
    record=LeadershipRecord,
    sentence=_leadership_sentence,
    facts=many_rows(
        **PARTITION,
        leader="leaders",
        leader_epoch="leader_epochs",
        isr="isrs",
        state_epoch="controller_epochs",
        partition_epoch="partition_epochs",
        recovery="recovery_states",
    ),
    from_facts=lambda rows: LeadershipRecord(*rows.of("topic", "partition", *_LEADERSHIP)),
    fold=_fold_leadership,
    counter=None,
    touched=lambda record: Touched(record.topics, record.partitions),
    in_snapshot=True,
    in_digest=True,
    holds_texts=False,
)


def _fold_partition_state(state: ClusterState, record: PartitionStateRecord) -> None:
    for name, number, after in zip(record.topics, record.partitions, record.after, strict=True):
        partition = state.partition(TopicPartition(name, number))
        if partition is not None:
            partition.state = PartitionState(after)


PARTITION_STATE: Final = RecordKind(
    record=PartitionStateRecord,
    sentence=lambda record: f"{partitions_phrase(record)}: {transitions_phrase(record.before, record.after)}",
    facts=many_rows(**PARTITION, before="before", after="after"),
    from_facts=lambda rows: PartitionStateRecord(*rows.of("topic", "partition", "before", "after")),
    fold=_fold_partition_state,
    counter=None,
    touched=lambda record: Touched(record.topics, record.partitions),
    in_snapshot=True,
    in_digest=True,
    holds_texts=False,
)


def _fold_replica_state(state: ClusterState, record: ReplicaStateRecord) -> None:
    columns = (record.topics, record.partitions, record.brokers, record.after)
    for name, number, broker, after in zip(*columns, strict=True):
        partition = state.partition(TopicPartition(name, number))
        if partition is None:
            continue
        if ReplicaState(after) is ReplicaState.NON_EXISTENT:
            partition.replica_states.pop(BrokerId(broker), None)
        else:
            partition.replica_states[BrokerId(broker)] = ReplicaState(after)


REPLICA_STATE: Final = RecordKind(
    record=ReplicaStateRecord,
    sentence=lambda record: (
        f"{partitions_phrase(record, 'replica')}: {transitions_phrase(record.before, record.after)}"
    ),
    facts=many_rows(**PARTITION, broker="brokers", before="before", after="after"),
    from_facts=lambda rows: ReplicaStateRecord(*rows.of("topic", "partition", "broker", "before", "after")),
    fold=_fold_replica_state,
    counter=None,
    in_snapshot=True,
    in_summary=False,
    holds_texts=False,
)


def _refused_sentence(record: RefusedRecord) -> str:
    return f"{record.what} refused for {partitions_phrase(record)}{because(_reasons(record.reasons))}"


def _reasons(reasons: Sequence[str]) -> str:
    return reasons[0] if len(set(reasons)) == 1 else tally(reasons)


def _refused_facts(record: RefusedRecord) -> Facts:
    count = len(record.topics)
    return count, {
        "name": [record.what] * count,
        "topic": record.topics,
        "partition": record.partitions,
        "reason": record.reasons,
    }


def _refused_notes(record: RefusedRecord, tp: TopicPartition) -> Iterator[str]:
    for topic, number, reason in zip(record.topics, record.partitions, record.reasons, strict=True):
        if (topic, number) == tp:
            yield f"{record.what} refused: {reason}"


REFUSED: Final = RecordKind(
    record=RefusedRecord,
    sentence=_refused_sentence,
    facts=_refused_facts,
    from_facts=None,
    fold=None,
    counter=None,
    touched=lambda record: Touched(record.topics, record.partitions),
    notes=_refused_notes,
)


def _decision_sentence(record: DecisionRecord) -> str:
    unclean = sum(record.unclean)
    chosen = f", broker {record.leaders[0]}" if len(record.leaders) == 1 else ""
    elected = f"elected {partitions_phrase(record)} ({record.strategy}){chosen}"
    return elected + (f", {unclean} UNCLEAN" if unclean else "")


def _decision_facts(record: DecisionRecord) -> Facts:
    count = len(record.topics)
    return count, {
        "name": [record.strategy] * count,
        "topic": record.topics,
        "partition": record.partitions,
        "leader": record.leaders,
        "isr": record.isrs,
        "unclean": record.unclean,
    }


DECISION: Final = RecordKind(
    record=DecisionRecord,
    sentence=_decision_sentence,
    facts=_decision_facts,
    from_facts=None,
    fold=None,
    counter=None,
    in_summary=False,
    holds_texts=False,
)

PARTITIONS: Final[tuple[RecordKind[Any], ...]] = (LEADERSHIP, PARTITION_STATE, REPLICA_STATE, REFUSED, DECISION)
