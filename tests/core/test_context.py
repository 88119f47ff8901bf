"""The context's indexes never disagree with a naive recomputation, and its journal tells the whole journal_image."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controllerd.core import changes as ch
from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.model import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.core.records import PartitionRecord
from tests.fakes.world import offline_partitions

BROKERS = tuple(BrokerId(number) for number in range(1, 4))
TOPICS = ("a", "b")
PARTITIONS = tuple(TopicPartition(topic, partition) for topic in TOPICS for partition in range(2))

broker_ids = st.sampled_from(BROKERS)
some_brokers = st.lists(broker_ids, unique=True, max_size=3).map(tuple)
states = st.sampled_from(PartitionState)
replica_states = st.sampled_from(ReplicaState)


@st.composite
def assignments(draw: st.DrawFn) -> ReplicaAssignment:
    """Replicas, of which some are being added and some removed."""
    replicas = draw(some_brokers)
    parts = [draw(st.sampled_from(["stays", "added", "removed"])) for _ in replicas]
    chosen = {kind: tuple(b for b, part in zip(replicas, parts, strict=True) if part == kind) for kind in parts}
    return ReplicaAssignment(replicas, chosen.get("added", ()), chosen.get("removed", ()))


leaderships = st.builds(
    LeaderAndIsr,
    leader=st.sampled_from([BrokerId(-1), *BROKERS]),
    leader_epoch=st.integers(0, 2),
    isr=some_brokers,
    controller_epoch=st.just(1),
    partition_epoch=st.integers(0, 2),
)


class JournalImage:
    """The image of the cluster, made from the journal alone."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, Broker] = {}
        self.shutting_down: set[BrokerId] = set()
        self.offline_dirs: dict[BrokerId, frozenset[TopicPartition]] = {}
        self.topics: dict[str, tuple[str | None, int]] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.leaderships: dict[TopicPartition, LeaderAndIsr] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.quarantine: dict[str, str] = {}

    def take(self, change: ch.Change | ch.BulkChange) -> None:
        match change:
            case ch.PartitionsAssigned(topic, assigned):
                self.assignments |= {TopicPartition(topic, number): each for number, each in assigned.items()}
            case ch.LeadershipsSet(of, leaderships):
                self.leaderships |= dict(zip(of, leaderships, strict=True))
            case ch.PartitionsMoved(partitions, before, after):
                for tp in partitions:
                    self.take_of_topics(ch.PartitionMoved(tp, before, after))
            case ch.ReplicasMoved(host, moved, was, becomes):
                for tp in moved:
                    assert self.replica_states.get(Replica(tp, host), ReplicaState.NON_EXISTENT) is was
                    self.replica_states[Replica(tp, host)] = becomes
            case ch.BrokerLive(broker):
                self.brokers[broker.id] = broker
            case ch.BrokerGone(gone):
                del self.brokers[gone]
                self.shutting_down.discard(gone)
                self.offline_dirs.pop(gone, None)
            case ch.BrokerShuttingDown(leaving):
                self.shutting_down.add(leaving)
            case ch.OfflineDirsSet(where, partitions):
                self.offline_dirs[where] = partitions
            case ch.ZnodeQuarantined(path, reason):
                self.quarantine[path] = reason
            case ch.ZnodeReleased(path):
                del self.quarantine[path]
            case _:
                self.take_of_topics(change)

    def take_of_topics(self, change: ch.Change | ch.BulkChange) -> None:
        match change:
            case ch.TopicKnown(topic, topic_id, version):
                self.topics[topic] = (topic_id, version)
            case ch.TopicForgotten(topic):
                self.forget(topic)
            case ch.AssignmentSet(tp, assignment):
                self.assignments[tp] = assignment
            case ch.LeadershipSet(tp, leadership):
                self.leaderships[tp] = leadership
            case ch.PartitionMoved(tp, before, after):
                assert self.states.get(tp, PartitionState.NON_EXISTENT) is before
                self.states[tp] = after
            case _:
                raise AssertionError(change)

    def forget(self, topic: str) -> None:
        del self.topics[topic]
        for by_partition in (self.assignments, self.leaderships, self.states):
            for tp in [tp for tp in by_partition if tp.topic == topic]:
                del by_partition[tp]
        for replica in [replica for replica in self.replica_states if replica.tp.topic == topic]:
            del self.replica_states[replica]
        for broker, partitions in self.offline_dirs.items():
            self.offline_dirs[broker] = frozenset(tp for tp in partitions if tp.topic != topic)

    def is_online(self, broker: BrokerId, tp: TopicPartition) -> bool:
        bad = self.offline_dirs.get(broker, frozenset())
        return broker in self.brokers and broker not in self.shutting_down and tp not in bad


def not_empty(dirs: dict[BrokerId, frozenset[TopicPartition]]) -> dict[BrokerId, frozenset[TopicPartition]]:
    return {broker: partitions for broker, partitions in dirs.items() if partitions}


class ContextMachine(RuleBasedStateMachine):
    """Any sequence of mutations; after each one the context is compared with the journal_image and with plain scans."""

    def __init__(self) -> None:
        super().__init__()
        self.context = ControllerContext()
        self.journal_image = JournalImage()
        self.seen_by_readers: dict[str, Any] = {}

    # -- mutations -------------------------------------------------------------------------------------------------

    @initialize(epochs=st.lists(st.integers(1, 9), min_size=4, max_size=4))
    def some_brokers_are_live(self, epochs: list[int]) -> None:
        for broker, epoch in zip(BROKERS[:2], epochs, strict=False):
            self.context.add_broker(Broker(broker, epoch, ()))

    @rule(broker=broker_ids, epoch=st.integers(1, 9))
    def add_broker(self, broker: BrokerId, epoch: int) -> None:
        self.context.add_broker(Broker(broker, epoch, ()))

    @rule(broker=broker_ids)
    def remove_broker(self, broker: BrokerId) -> None:
        self.context.remove_broker(broker)

    @precondition(lambda self: self.context.brokers)
    @rule(data=st.data())
    def mark_shutting_down(self, data: st.DataObject) -> None:
        self.context.mark_shutting_down(data.draw(st.sampled_from(sorted(self.context.brokers))))

    @precondition(lambda self: self.context.brokers)
    @rule(data=st.data(), partitions=st.frozensets(st.sampled_from(PARTITIONS)))
    def set_offline_dirs(self, data: st.DataObject, partitions: frozenset[TopicPartition]) -> None:
        broker = data.draw(st.sampled_from(sorted(self.context.brokers)))
        self.context.set_offline_dirs(broker, frozenset(tp for tp in partitions if tp in self.context))

    @rule(
        topic=st.sampled_from(TOPICS),
        version=st.integers(0, 3),
        generation=st.sampled_from([None, "x", "y"]),
        assigned=st.dictionaries(st.integers(0, 1), assignments(), min_size=1),
    )
    def put_topic(
        self, topic: str, version: int, generation: str | None, assigned: dict[int, ReplicaAssignment]
    ) -> None:
        topic_id = None if generation is None else f"{topic}-{generation}"
        self.context.put_topic(TopicImage(topic, assigned, topic_id, version))

    @precondition(lambda self: len(self.context.topics) < len(TOPICS))
    @rule(data=st.data(), assigned=st.dictionaries(st.integers(0, 1), assignments(), min_size=1))
    def add_topic(self, data: st.DataObject, assigned: dict[int, ReplicaAssignment]) -> None:
        topic = data.draw(st.sampled_from(sorted(set(TOPICS) - set(self.context.topics))))
        self.context.add_topic(TopicImage(topic, assigned, f"{topic}-z", 0))

    @rule(topic=st.sampled_from(TOPICS))
    def remove_topic(self, topic: str) -> None:
        self.context.remove_topic(topic)

    @precondition(lambda self: self.context.topics)
    @rule(data=st.data())
    def queue_for_deletion(self, data: st.DataObject) -> None:
        self.context.queued_for_deletion.add(data.draw(st.sampled_from(sorted(self.context.topics))))

    def a_partition(self, data: st.DataObject) -> TopicPartition:
        return data.draw(st.sampled_from(sorted(self.context.partitions())))

    def has_partitions(self) -> bool:
        return any(True for _ in self.context.partitions())

    @precondition(has_partitions)
    @rule(data=st.data(), assignment=assignments())
    def set_assignment(self, data: st.DataObject, assignment: ReplicaAssignment) -> None:
        self.context.set_assignment(self.a_partition(data), assignment)

    @precondition(has_partitions)
    @rule(data=st.data(), leadership=leaderships)
    def set_leadership(self, data: st.DataObject, leadership: LeaderAndIsr) -> None:
        self.context.set_leadership(self.a_partition(data), leadership)

    @precondition(has_partitions)
    @rule(data=st.data(), state=states)
    def set_partition_state(self, data: st.DataObject, state: PartitionState) -> None:
        self.context.set_partition_state(self.a_partition(data), state)

    @precondition(has_partitions)
    @rule(data=st.data(), broker=broker_ids, state=replica_states)
    def move_a_replica(self, data: st.DataObject, broker: BrokerId, state: ReplicaState) -> None:
        self.context.move_replicas(broker, [self.context.record(self.a_partition(data))], state)

    def some_records(self, data: st.DataObject) -> list[PartitionRecord]:
        known = sorted(self.context.partitions())
        return [self.context.record(tp) for tp in data.draw(st.lists(st.sampled_from(known), unique=True))]

    @precondition(has_partitions)
    @rule(data=st.data(), leadership=leaderships)
    def set_leaderships(self, data: st.DataObject, leadership: LeaderAndIsr) -> None:
        self.context.set_leaderships((record, leadership) for record in self.some_records(data))

    @precondition(has_partitions)
    @rule(data=st.data(), state=states)
    def move_partitions(self, data: st.DataObject, state: PartitionState) -> None:
        self.context.move_partitions(self.some_records(data), state)

    @precondition(has_partitions)
    @rule(data=st.data(), broker=broker_ids, state=replica_states)
    def move_replicas(self, data: st.DataObject, broker: BrokerId, state: ReplicaState) -> None:
        self.context.move_replicas(broker, self.some_records(data), state)

    @rule(path=st.sampled_from(["/p", "/q"]), reason=st.sampled_from(["r", "s"]))
    def put_in_quarantine(self, path: str, reason: str) -> None:
        self.context.put_in_quarantine(path, reason)

    @rule(path=st.sampled_from(["/p", "/q"]))
    def release(self, path: str) -> None:
        self.context.take_out_of_quarantine(path)

    @rule()
    def reset(self) -> None:
        self.context.reset()
        self.journal_image = JournalImage()

    # -- comparisons -----------------------------------------------------------------------------------------------

    def listen(self) -> None:
        for change in self.context.take_changes():
            self.journal_image.take(change)

    @invariant()
    def the_journal_tells_the_whole_story(self) -> None:
        self.listen()
        context, journal_image = self.context, self.journal_image
        records = {tp: context.record(tp) for tp in context.partitions()}

        assert context.brokers == journal_image.brokers
        assert context.shutting_down == journal_image.shutting_down
        assert {b: p for b, p in context.offline_dirs.items() if p} == {
            b: p for b, p in journal_image.offline_dirs.items() if p
        }
        assert {name: (t.topic_id, t.znode_version) for name, t in context.topics.items()} == journal_image.topics
        assert {tp: record.assignment for tp, record in records.items()} == journal_image.assignments
        assert {tp: r.leadership for tp, r in records.items() if r.leadership is not None} == journal_image.leaderships
        assert context.quarantine == journal_image.quarantine
        for tp in PARTITIONS:
            assert context.partition_state(tp) is journal_image.states.get(tp, PartitionState.NON_EXISTENT)
            for broker in BROKERS:
                expected = journal_image.replica_states.get(Replica(tp, broker), ReplicaState.NON_EXISTENT)
                assert context.replica_state(Replica(tp, broker)) is expected

    @invariant()
    def replicas_by_broker_agree_with_a_scan(self) -> None:
        scanned = defaultdict(set)
        for tp in self.context.partitions():
            for broker in self.context.assignment(tp).replicas:
                scanned[broker].add(tp)

        for broker in BROKERS:
            assert set(self.context.partitions_on(broker)) == scanned[broker]
            assert {record.tp for record in self.context.records_on(broker)} == scanned[broker]
        assert self.context.replica_holders() == {broker for broker, hosted in scanned.items() if hosted}

    @invariant()
    def partitions_by_leader_agree_with_a_scan(self) -> None:
        scanned = defaultdict(set)
        for tp in self.context.partitions():
            if (leadership := self.context.leadership(tp)) is not None:
                scanned[leadership.leader].add(tp)

        for leader in (BrokerId(-1), *BROKERS):
            assert set(self.context.partitions_led_by(leader)) == scanned[leader]

    @invariant()
    def partitions_without_online_leader_agree_with_a_scan(self) -> None:
        self.listen()
        scanned = {
            tp
            for tp in self.context.partitions()
            if (leadership := self.context.leadership(tp)) is not None
            and not self.journal_image.is_online(leadership.leader, tp)
            and not is_hidden(self.context, tp.topic)
        }

        assert sorted(self.context.partitions_without_online_leader()) == sorted(scanned)

    @invariant()
    def waiting_partitions_agree_with_a_scan(self) -> None:
        waiting = {PartitionState.NEW, PartitionState.OFFLINE}
        scanned = [
            tp
            for tp in self.context.partitions()
            if self.context.partition_state(tp) in waiting and not is_hidden(self.context, tp.topic)
        ]

        assert sorted(self.context.waiting_partitions()) == sorted(scanned)
        offline = [tp for tp in scanned if self.context.partition_state(tp) is PartitionState.OFFLINE]
        assert offline_partitions(self.context) == len(offline)

    @invariant()
    def reassigned_partitions_agree_with_a_scan(self) -> None:
        scanned = {tp for tp in self.context.partitions() if self.context.assignment(tp).is_being_reassigned}

        assert self.context.being_reassigned == scanned

    @invariant()
    def topic_names_are_the_inverse_of_topic_ids(self) -> None:
        ids = {name: topic.topic_id for name, topic in self.context.topics.items() if topic.topic_id is not None}

        assert self.context.topic_names == {topic_id: name for name, topic_id in ids.items()}

    @invariant()
    def nothing_of_a_removed_topic_stays(self) -> None:
        known = set(self.context.topics)

        assert self.context.queued_for_deletion <= known
        assert {tp.topic for bad in self.context.offline_dirs.values() for tp in bad} <= known

    @invariant()
    def every_topic_that_readers_would_see_changed_is_dirty(self) -> None:
        seen = {name: self.view_of(name) for name in self.context.topics}
        before, self.seen_by_readers = self.seen_by_readers, seen
        changed = {name for name in TOPICS if before.get(name) != seen.get(name)}

        assert changed <= self.context.take_dirty_topics()

    def view_of(self, name: str) -> object:
        context = self.context
        partitions = [
            (
                tp,
                context.assignment(tp),
                context.leadership(tp),
                context.partition_state(tp),
                context.liveness.offline(context.record(tp)),
            )
            for tp in context.partitions_of(name)
        ]
        return context.topic_id(name), context.topics[name].znode_version, partitions


TestControllerContext = ContextMachine.TestCase
TestControllerContext.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


# -- what the machine cannot say in one sentence -----------------------------------------------------------------------

ORDERS_0 = TopicPartition("orders", 0)


def context_with_orders() -> ControllerContext:
    context = ControllerContext()
    for broker in BROKERS[:2]:
        context.add_broker(Broker(broker, 1, ()))
    context.put_topic(TopicImage("orders", {0: ReplicaAssignment(BROKERS[:2])}, "id-1", 0))
    return context


def test_a_known_assignment_is_not_overwritten_by_reading_the_topic_again() -> None:
    context = context_with_orders()

    context.put_topic(TopicImage("orders", {0: ReplicaAssignment(BROKERS[1:])}, "id-1", 1))

    assert context.assignment(ORDERS_0) == ReplicaAssignment(BROKERS[:2])


def test_a_topic_that_was_removed_and_created_again_starts_from_nothing() -> None:
    """KAFKA-9478: states of a removed topic stayed behind and made its successor impossible to initialise."""
    context = context_with_orders()
    context.set_partition_state(ORDERS_0, PartitionState.ONLINE)
    context.move_replicas(BROKERS[0], [context.record(ORDERS_0)], ReplicaState.ONLINE)
    context.set_offline_dirs(BROKERS[0], frozenset({ORDERS_0}))

    context.remove_topic("orders")
    context.put_topic(TopicImage("orders", {0: ReplicaAssignment(BROKERS[:2])}, "id-2", 0))

    assert context.partition_state(ORDERS_0) is PartitionState.NON_EXISTENT
    assert context.replica_state(Replica(ORDERS_0, BROKERS[0])) is ReplicaState.NON_EXISTENT
    assert context.is_online(BROKERS[0], ORDERS_0)
    assert context.topic_names == {"id-2": "orders"}


def test_a_bounced_broker_neither_shuts_down_nor_has_a_failed_directory() -> None:
    context = context_with_orders()
    context.mark_shutting_down(BROKERS[0])
    context.set_offline_dirs(BROKERS[0], frozenset({ORDERS_0}))

    bounced = replace(context.brokers[BROKERS[0]], epoch=2)
    context.remove_broker(BROKERS[0])
    context.add_broker(bounced)

    assert BROKERS[0] in context.live
    assert context.is_online(BROKERS[0], ORDERS_0)
    assert context.epochs() == {BROKERS[0]: 2, BROKERS[1]: 1}


def test_a_replica_on_a_broker_that_shuts_down_is_online_only_if_such_brokers_are_included() -> None:
    context = context_with_orders()

    context.mark_shutting_down(BROKERS[0])

    assert not context.is_online(BROKERS[0], ORDERS_0)
    assert context.is_online(BROKERS[0], ORDERS_0, include_shutting_down=True)
    assert context.liveness.offline(context.record(ORDERS_0)) == BROKERS[:1]


def test_a_leader_whose_log_directory_failed_is_not_online() -> None:
    context = context_with_orders()
    context.set_leadership(ORDERS_0, LeaderAndIsr(BROKERS[0], 0, BROKERS[:2], 1, 0))
    assert context.partitions_without_online_leader() == []

    context.set_offline_dirs(BROKERS[0], frozenset({ORDERS_0}))

    assert context.partitions_without_online_leader() == [ORDERS_0]


def test_a_removed_topic_is_no_longer_queued_for_deletion() -> None:
    context = context_with_orders()
    context.queued_for_deletion.add("orders")

    context.remove_topic("orders")

    assert "orders" not in context.queued_for_deletion


def test_unchanged_values_leave_no_trace() -> None:
    context = context_with_orders()
    context.set_leadership(ORDERS_0, LeaderAndIsr(BROKERS[0], 0, BROKERS[:2], 1, 0))
    context.take_changes()
    context.take_dirty_topics()

    context.set_leadership(ORDERS_0, LeaderAndIsr(BROKERS[0], 0, BROKERS[:2], 1, 0))
    context.set_partition_state(ORDERS_0, PartitionState.NON_EXISTENT)
    context.set_offline_dirs(BROKERS[0], frozenset())

    assert context.take_changes() == []
    assert context.take_dirty_topics() == set()


def test_a_reset_marks_every_topic_as_changed() -> None:
    context = context_with_orders()
    context.take_dirty_topics()

    context.reset()

    assert context.take_dirty_topics() == {"orders"}
    assert list(context.partitions()) == []


def test_the_count_of_changes_only_grows() -> None:
    context = ControllerContext()
    counts = [context.change_count]
    for step in (
        lambda: context.put_in_quarantine("/a", "broken"),
        context.take_changes,
        lambda: context.take_out_of_quarantine("/a"),
        context.reset,
    ):
        step()
        counts.append(context.change_count)

    assert counts == [0, 1, 1, 2, 2]


def test_the_new_and_offline_partitions_of_a_topic_wait_unless_it_is_queued_for_deletion() -> None:
    context = ControllerContext()
    for name in ("t", "u"):
        context.put_topic(TopicImage(name, dict.fromkeys(range(3), ReplicaAssignment((BrokerId(1),))), None, 0))
    new, online = TopicPartition("t", 0), TopicPartition("t", 1)
    context.set_partition_state(new, PartitionState.NEW)
    context.set_partition_state(online, PartitionState.NEW)
    context.set_partition_state(online, PartitionState.ONLINE)
    context.set_partition_state(TopicPartition("u", 0), PartitionState.NEW)

    assert context.waiting_partitions_of("t") == [new]
    assert context.waiting_partitions_of("unknown") == []
    context.queued_for_deletion.add("t")
    assert context.waiting_partitions_of("t") == []
