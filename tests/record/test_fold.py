"""The fold rebuilds the state of the controller after any events, and reports differences from ZooKeeper."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.audit.checkpoints import snapshot_steps
from controllerd.audit.reader import fold_directory
from controllerd.core.context import ControllerContext
from controllerd.core.model import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.machines.recorded import journal_records
from controllerd.record.fold import Observed, apply, diff_with_zookeeper
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import BrokersRecord, Record, SessionRecord, SnapshotBegin, SnapshotEnd, TermRecord
from controllerd.record.state import ClusterState
from tests.audit.samples import write_log
from tests.record.logs import good_log, log_of

IN_SNAPSHOT: Final = {record for record, kind in DESCRIPTIONS.items() if kind.in_snapshot}
TOPICS: Final = ("a", "b", "c")
BROKERS: Final = st.integers(1, 4).map(BrokerId)
SOME_BROKERS: Final = st.lists(BROKERS, unique=True, max_size=3).map(tuple)
PARTITIONS: Final = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 2))
ASSIGNMENTS: Final = st.builds(ReplicaAssignment, SOME_BROKERS, SOME_BROKERS, SOME_BROKERS)
EPOCHS: Final = st.integers(0, 5)
LEADERSHIPS: Final = st.builds(
    LeaderAndIsr, BROKERS, EPOCHS, SOME_BROKERS, EPOCHS, EPOCHS, st.sampled_from(LeaderRecoveryState)
)
IMAGES: Final = st.builds(
    TopicImage,
    st.sampled_from(TOPICS),
    st.dictionaries(st.integers(0, 2), ASSIGNMENTS, max_size=3),
    st.sampled_from([None, "id-1", "id-2"]),
    EPOCHS,
)
MUTATIONS: Final = st.one_of(
    st.tuples(st.just("add_broker"), st.builds(Broker, BROKERS, EPOCHS, st.just(()), st.sampled_from([None, "rack"]))),
    st.tuples(st.just("remove_broker"), BROKERS),
    st.tuples(st.just("mark_shutting_down"), BROKERS),
    st.tuples(st.just("set_offline_dirs"), BROKERS, st.frozensets(PARTITIONS, max_size=3)),
    st.tuples(st.just("put_topic"), IMAGES),
    st.tuples(st.just("remove_topic"), st.sampled_from(TOPICS)),
    st.tuples(st.just("set_assignment"), PARTITIONS, ASSIGNMENTS),
    st.tuples(st.just("set_leadership"), PARTITIONS, LEADERSHIPS),
    st.tuples(st.just("set_partition_state"), PARTITIONS, st.sampled_from(PartitionState)),
    st.tuples(st.just("move_replicas"), st.builds(Replica, PARTITIONS, BROKERS), st.sampled_from(ReplicaState)),
    st.tuples(st.just("put_in_quarantine"), st.sampled_from(["/x", "/y"]), st.sampled_from(["bad", "worse"])),
    st.tuples(st.just("take_out_of_quarantine"), st.sampled_from(["/x", "/y"])),
)


def mutate(context: ControllerContext, name: str, *arguments: object) -> None:
    """Call one of the context's own methods; a partition that it does not know is left alone."""
    first = arguments[0]
    tp = first.tp if isinstance(first, Replica) else first
    if isinstance(tp, TopicPartition) and tp not in context:
        return
    if isinstance(first, Replica):
        arguments = (first.broker, [context.record(first.tp)], *arguments[1:])
    getattr(context, name)(*arguments)


def fold(records: Sequence[Record]) -> ClusterState:
    """The state after the records."""
    state = ClusterState()
    for envelope, record in log_of(records):
        apply(state, envelope, record)
    return state


def assert_same_state(state: ClusterState, context: ControllerContext) -> None:
    """Everything that the context knows is in the state, and nothing else."""
    records = {tp: context.record(tp) for tp in context.partitions()}
    assert {broker: (row.epoch, row.rack) for broker, row in state.brokers.items()} == {
        broker.id: (broker.epoch, broker.rack) for broker in context.brokers.values()
    }
    assert state.shutting_down == context.shutting_down
    assert state.offline_dirs == context.offline_dirs
    assert state.quarantine == context.quarantine
    assert state.pending_deletions == {
        broker: dict(context.pending_deletions.of(broker)) for broker in context.pending_deletions.brokers()
    }
    assert {name for name, deletion in state.deletions.items() if deletion.is_started} == context.deletions.started
    assert {name: d.halted for name, d in state.deletions.items() if d.halted} == context.deletions.halted
    assert state.deletions.keys() == context.deletions.queued
    assert state.topic_ids() == {name: topic.topic_id for name, topic in context.topics.items()}
    assert {name: topic.znode_version for name, topic in state.topics.items()} == {
        name: topic.znode_version for name, topic in context.topics.items()
    }
    assert state.assignments() == {tp: record.assignment for tp, record in records.items()}
    assert state.leaderships() == {tp: record.leadership for tp, record in records.items() if record.leadership}
    assert state.partition_states() == {tp: record.state for tp, record in records.items()}
    assert state.replica_states() == {
        Replica(tp, broker): state for tp, record in records.items() for broker, state in record.replica_states.items()
    }


@settings(deadline=None)
@given(st.lists(st.lists(MUTATIONS, max_size=15), max_size=4))
def test_the_fold_of_the_journal_is_the_context(events: list[list[tuple[str, ...]]]) -> None:
    context = ControllerContext()
    records: list[Record] = []
    for event in events:
        for mutation in event:
            mutate(context, *mutation)
        records += journal_records(context.take_changes())
    assert_same_state(fold(records), context)


@settings(deadline=None)
@given(st.lists(MUTATIONS, max_size=40))
def test_the_fold_of_a_periodic_snapshot_is_the_context(mutations: list[tuple[str, ...]]) -> None:
    context = ControllerContext()
    for mutation in mutations:
        mutate(context, *mutation)
    records = [record for step in snapshot_steps(context) for record in step]
    assert_same_state(fold(records), context)
    assert {type(record) for record in records} <= IN_SNAPSHOT | {SnapshotEnd}


@settings(max_examples=20, deadline=None)
@given(st.lists(MUTATIONS, max_size=30))
def test_the_fold_of_the_files_is_the_context(mutations: list[tuple[str, ...]]) -> None:
    context = ControllerContext()
    for mutation in mutations:
        mutate(context, *mutation)
    with tempfile.TemporaryDirectory() as root:
        directory = asyncio.run(write_log(Path(root), *journal_records(context.take_changes())))
        assert_same_state(fold_directory(directory), context)


def test_a_snapshot_begins_with_nothing() -> None:
    state = fold([record for _, record in good_log()] + [SnapshotBegin(8)])
    assert (state.brokers, state.topics, state.controller_epoch) == ({}, {}, 8)


def test_each_term_can_be_replayed_from_its_snapshot_alone() -> None:
    records = [record for _, record in good_log()]
    again = [TermRecord("elected", 8, 13, "controllerd", ""), *records[2:]]
    assert fold(records + again).leaderships() == fold(again).leaderships()


def test_the_role_ends_with_the_session() -> None:
    state = fold([TermRecord("elected", 7, 12, "controllerd", ""), SessionRecord("lost", 1, 1)])
    assert (state.controller_epoch, state.session) == (0, "lost")


def test_a_bounced_broker_is_gone_before_it_is_live() -> None:
    live = next(record for _, record in good_log() if isinstance(record, BrokersRecord)).live
    assert set(fold([BrokersRecord(live=live, gone=[1])]).brokers) == {1, 2}


def observed(state: ClusterState) -> Observed:
    """The state that ZooKeeper has if the log is right."""
    return Observed(state.topic_ids(), state.assignments(), state.leaderships())


def test_a_state_that_equals_zookeeper_has_no_differences() -> None:
    state = fold([record for _, record in good_log()])
    assert diff_with_zookeeper(state, observed(state)) == []


def test_differences_from_zookeeper_are_sentences() -> None:
    state = fold([record for _, record in good_log()])
    tp = TopicPartition("a", 0)
    found = observed(state)
    other = Observed({**found.topic_ids, "b": None}, {tp: ReplicaAssignment((BrokerId(1),))}, {})
    first, second, third = diff_with_zookeeper(state, other)
    assert first == "topic b has the id None in ZooKeeper and none in the log"
    assert second.startswith("partition a-0 has the assignment ReplicaAssignment(replicas=(1, 2)")
    assert third.endswith("in the log and none in ZooKeeper")


def test_deletions_and_pending_replica_deletions_are_folded_as_the_context_has_them() -> None:
    context = ControllerContext()
    for name in TOPICS:
        context.put_topic(TopicImage(name, {0: ReplicaAssignment((BrokerId(1),))}, None, 0))
        context.deletions.queue(name)
    context.deletions.begin("a")
    context.deletions.halt("a", "waits")
    context.deletions.halt("b", "waits")
    context.deletions.resume("b")
    context.remove_topic("c")
    many = {TopicPartition("c", number): "id-1" for number in range(12_000)}
    context.pending_deletions.set(BrokerId(1), many)
    context.pending_deletions.set(BrokerId(2), {TopicPartition("c", 0): None})
    context.pending_deletions.set(BrokerId(2), {})

    state = fold(list(journal_records(context.take_changes())))

    assert_same_state(state, context)
    assert sorted(state.deletions) == ["a", "b"]
