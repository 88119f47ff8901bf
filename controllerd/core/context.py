"""The controller's image of the cluster, its indexes, and the only methods that change it.

The event task is the only writer. Every mutation leaves a value in the journal (``changes.py``), from which the audit
log is written, and marks the topics whose snapshot for readers is outdated. Queries by broker and by leader are index
lookups.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from controllerd.core import changes
from controllerd.core.changes import BulkChange, Change
from controllerd.core.deletion_waits import hidden_topics, is_hidden
from controllerd.core.deletions import DeletionBook
from controllerd.core.intents import Intents
from controllerd.core.liveness import Liveness
from controllerd.core.model import (
    Broker,
    BrokerId,
    Features,
    LeaderAndIsr,
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.core.pending_deletions import PendingDeletions
from controllerd.core.records import Indexes, PartitionRecord, TopicRecord
from controllerd.core.releases import Releases
from controllerd.core.replica_states import ReplicaStates

NO_ASSIGNMENT: Final = ReplicaAssignment(())


class ControllerContext:
    """The cluster as the active controller knows it. ``reset`` makes it empty again."""

    def __init__(self, features: Features | None = None) -> None:
        self.features = features or Features()
        self._journal: list[Change | BulkChange] = []
        self._taken = 0
        self._dirty: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Empty the context, because the term has ended; every topic counts as changed for readers."""
        self._dirty.update(getattr(self, "topics", ()))
        self.epoch = self.epoch_zk_version = 0
        self.brokers: dict[BrokerId, Broker] = {}
        self.releases = Releases()
        self.shutting_down: set[BrokerId] = set()
        self.topics: dict[str, TopicRecord] = {}
        self.topic_names: dict[str, str] = {}
        self.deletions = DeletionBook(self._note_deletion)
        self.queued_for_deletion = self.deletions.queued
        self.pending_deletions = PendingDeletions(self._journal.append)
        self.intents = Intents()
        self.offline_dirs: dict[BrokerId, frozenset[TopicPartition]] = {}
        self.quarantine: dict[str, str] = {}
        self.liveness = Liveness(self.brokers, self.shutting_down, self.offline_dirs)
        self._indexes = Indexes()
        self._assignments: dict[ReplicaAssignment, ReplicaAssignment] = {}
        self.no_replica_states = ReplicaStates.nothing()
        """The states of a new partition without replicas, one object for all partitions of the term."""
        self.take_changes()

    def begin_term(self, epoch: int, epoch_zk_version: int) -> None:
        """Take the controller epoch of our election, and the version of ``/controller_epoch`` that it has."""
        self.epoch, self.epoch_zk_version = epoch, epoch_zk_version

    def take_changes(self) -> list[Change | BulkChange]:
        """The mutations since the last call, in order."""
        taken = self._journal.copy()
        self._journal.clear()
        self._taken += len(taken)
        return taken

    @property
    def change_count(self) -> int:
        """The number of mutations so far; it never falls."""
        return self._taken + len(self._journal)

    def take_dirty_topics(self) -> set[str]:
        """The topics that changed, or that are gone, since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    # -- brokers -----------------------------------------------------------------------------------------------------

    @property
    def live_or_shutting_down(self) -> AbstractSet[BrokerId]:
        """Every registered broker that we serve, including brokers in controlled shutdown."""
        return self.brokers.keys()

    @property
    def live(self) -> set[BrokerId]:
        """The brokers that may become leaders and ISR members."""
        return self.brokers.keys() - self.shutting_down

    def epochs(self) -> Mapping[BrokerId, int]:
        """The broker epoch of every registered broker."""
        return {broker.id: broker.epoch for broker in self.brokers.values()}

    def is_online(self, broker: BrokerId, tp: TopicPartition, *, include_shutting_down: bool = False) -> bool:
        """Whether this replica can be read and written: its broker is live and its log directory has not failed."""
        return self.liveness.is_online(broker, tp, include_shutting_down=include_shutting_down)

    def add_broker(self, broker: Broker) -> None:
        """Count a broker as live, or take its changed registration."""
        self.brokers[broker.id] = broker
        self._touch_broker(broker.id)
        self._journal.append(changes.BrokerLive(broker))

    def remove_broker(self, broker: BrokerId) -> None:
        """Count a broker as dead: no longer live, no longer shutting down, without failed log directories."""
        if self.brokers.pop(broker, None) is None:
            return
        self.shutting_down.discard(broker)
        self.releases.remove(broker)
        self.offline_dirs.pop(broker, None)
        self.pending_deletions.end_life(broker)
        self._touch_broker(broker)
        self._journal.append(changes.BrokerGone(broker))

    def mark_shutting_down(self, broker: BrokerId) -> None:
        """Count the broker as shutting down, until it dies or bounces."""
        if broker not in self.shutting_down:
            self.shutting_down.add(broker)
            self._touch_broker(broker)
            self._journal.append(changes.BrokerShuttingDown(broker))

    def set_offline_dirs(self, broker: BrokerId, partitions: frozenset[TopicPartition]) -> None:
        """Set the partitions of the broker that are on a failed log directory."""
        if partitions != self.offline_dirs.get(broker, frozenset()):
            self.offline_dirs[broker] = partitions
            self._touch_broker(broker)
            self._journal.append(changes.OfflineDirsSet(broker, partitions))

    def _touch_broker(self, broker: BrokerId) -> None:
        self.liveness.changed()
        self._dirty.update(tp.topic for tp in self._indexes.on(broker))

    # -- topics ------------------------------------------------------------------------------------------------------

    def put_topic(self, image: TopicImage) -> None:
        """Take the topic of a znode that was read, and each of its partitions that is not known yet.

        The assignment of a partition that is known stays as it is (``set_assignment`` changes one).
        """
        record = self.topics.get(image.name)
        if record is None:
            record = self.topics[image.name] = TopicRecord(image)
        self._update_topic(record, image)
        for partition, assignment in image.assignments.items():
            if partition not in record.partitions:
                added = self._add_partition(record, TopicPartition(image.name, partition), assignment)
                self._journal.append(changes.AssignmentSet(added.tp, added.assignment))

    def add_topic(self, image: TopicImage) -> None:
        """As ``put_topic``, for a topic that is not known: one change for all its partitions."""
        record = self.topics[image.name] = TopicRecord(image)
        self._update_topic(record, image)
        partitions = TopicPartition.all_of(image.name, image.assignments)
        for tp, assignment in zip(partitions, image.assignments.values(), strict=True):
            self._add_partition(record, tp, assignment)
        self._journal.append(changes.PartitionsAssigned(image.name, image.assignments))

    def _update_topic(self, record: TopicRecord, image: TopicImage) -> None:
        if record.topic_id is not None and record.topic_id != image.topic_id:
            self.topic_names.pop(record.topic_id, None)
        record.topic_id, record.znode_version = image.topic_id, image.znode_version
        record.format_version, record.extra, record.czxid = image.format_version, image.extra, image.czxid
        if image.topic_id is not None:
            self.topic_names[image.topic_id] = image.name
        self._dirty.add(image.name)
        self._journal.append(changes.TopicKnown(image.name, image.topic_id, image.znode_version))

    def _add_partition(self, topic: TopicRecord, tp: TopicPartition, assignment: ReplicaAssignment) -> PartitionRecord:
        # One object for all equal assignments: a cluster has few different ones.
        shared = self._assignments.setdefault(assignment, assignment)
        record = topic.partitions[tp.partition] = PartitionRecord(tp, shared, self.no_replica_states)
        self._indexes.assigned(record, ())
        return record

    def set_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Take the assignment of a known partition that its topic znode has now."""
        record = self.record(tp)
        before, record.assignment = record.assignment, assignment
        self._indexes.assigned(record, before.replicas)
        self._dirty.add(tp.topic)
        self._journal.append(changes.AssignmentSet(tp, assignment))

    def remove_topic(self, name: str) -> None:
        """Forget a topic with its partitions, states and indexes (KAFKA-9478: nothing may stay behind)."""
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        if topic.topic_id is not None:
            self.topic_names.pop(topic.topic_id, None)
        for record in topic.partitions.values():
            self._indexes.forget(record)
            self._forget_offline(record.tp)
        self.deletions.forget(name)
        self._dirty.add(name)
        self._journal.append(changes.TopicForgotten(name))

    def _forget_offline(self, tp: TopicPartition) -> None:
        for broker, partitions in self.offline_dirs.items():
            if tp in partitions:
                self.offline_dirs[broker] = partitions - {tp}
                self.liveness.changed()

    def touch(self, topic: str) -> None:
        """Count the topic as changed for readers, because its deletion has changed."""
        self._dirty.add(topic)

    def _note_deletion(self, change: changes.DeletionChanged) -> None:
        self._dirty.add(change.topic)
        self._journal.append(change)

    def topic_id(self, topic: str) -> str | None:
        """The id of a known topic, or None."""
        record = self.topics.get(topic)
        return record.topic_id if record is not None else None

    # -- partitions --------------------------------------------------------------------------------------------------

    def __contains__(self, tp: object) -> bool:
        return isinstance(tp, TopicPartition) and self.find(tp) is not None

    def find(self, tp: TopicPartition) -> PartitionRecord | None:
        """The record of a partition, or None when it is not assigned."""
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def record(self, tp: TopicPartition) -> PartitionRecord:
        """The record of a known partition; ``KeyError`` for an unknown one."""
        return self.topics[tp.topic].partitions[tp.partition]

    def records(self) -> Iterator[PartitionRecord]:
        """Every assigned partition, topic by topic."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def partitions(self) -> Iterator[TopicPartition]:
        """Every assigned partition, topic by topic."""
        return (record.tp for record in self.records())

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of one topic; none if it is unknown."""
        known = self.topics.get(topic)
        return [record.tp for record in known.partitions.values()] if known is not None else []

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """The assignment of a partition; empty when it is unknown."""
        record = self.find(tp)
        return record.assignment if record is not None else NO_ASSIGNMENT

    def leadership(self, tp: TopicPartition) -> LeaderAndIsr | None:
        """The cached content of the state znode, None while it does not exist."""
        record = self.find(tp)
        return record.leadership if record is not None else None

    def set_leadership(self, tp: TopicPartition, leadership: LeaderAndIsr) -> None:
        """Take the content of a state znode that was read or written."""
        if self._lead(self.record(tp), leadership):
            self._journal.append(changes.LeadershipSet(tp, leadership))

    def set_leaderships(self, updates: Iterable[tuple[PartitionRecord, LeaderAndIsr]]) -> None:
        """As ``set_leadership``, for many partitions, each at most once."""
        changed = [(record.tp, leadership) for record, leadership in updates if self._lead(record, leadership)]
        if changed:
            partitions, leaderships = zip(*changed, strict=True)
            self._journal.append(changes.LeadershipsSet(partitions, leaderships))

    def _lead(self, record: PartitionRecord, leadership: LeaderAndIsr) -> bool:
        """Set a leadership; return whether it has changed. Hot loop: fields of tuples are read by number."""
        before = record.leadership
        if before == leadership:
            return False
        record.leadership = leadership
        if before is None and leadership.controller_epoch != self.epoch:  # an earlier term wrote it
            record.loaded_epoch = leadership.leader_epoch
        if before is None or before[0] != leadership[0]:
            self._indexes.led(record, before, leadership[0])
        self._dirty.add(record.tp.topic)
        return True

    @property
    def being_reassigned(self) -> AbstractSet[TopicPartition]:
        """The partitions of which replicas are being added or removed."""
        return self._indexes.being_reassigned

    def records_on(self, broker: BrokerId) -> list[PartitionRecord]:
        """The partitions with a replica on this broker, as they are now."""
        return list(self._indexes.on(broker).values())

    def partitions_on(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The partitions with a replica on this broker."""
        return self._indexes.on(broker).keys()

    def replica_holders(self) -> set[BrokerId]:
        """Return the brokers that partitions are assigned to, live or not, in a time proportional to their number."""
        return self._indexes.holders()

    def partitions_led_by(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The partitions whose cached leader is this broker (-1: partitions without leader)."""
        return self._indexes.led_by(broker).keys()

    def partitions_without_online_leader(self) -> list[TopicPartition]:
        """Partitions with leadership whose leader is not online; hidden topics are left out."""
        hidden, found = hidden_topics(self), list[TopicPartition]()
        for leader, led in self._indexes.by_leader():
            gone = leader not in self.brokers or leader in self.shutting_down
            bad = led.keys() if gone else sorted(self.offline_dirs.get(leader, ()))  # a set has no fixed order
            found += [tp for tp in bad if tp in led and tp.topic not in hidden]
        return found

    # -- states ------------------------------------------------------------------------------------------------------

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        """State of the partition state machine; NonExistent for an unknown partition."""
        record = self.find(tp)
        return record.state if record is not None else PartitionState.NON_EXISTENT

    def set_partition_state(self, tp: TopicPartition, state: PartitionState) -> None:
        """Take a transition that was carried out."""
        record = self.record(tp)
        before, record.state = record.state, state
        if before is not state:
            self._moved((record,), state)
            self._journal.append(changes.PartitionMoved(tp, before, state))

    def move_partitions(self, records: Iterable[PartitionRecord], state: PartitionState) -> None:
        """Take the same transition of many partitions; partitions in that state already are left alone."""
        by_state: dict[PartitionState, list[PartitionRecord]] = {}
        for record in records:
            if record.state is not state:
                by_state.setdefault(record.state, []).append(record)
                record.state = state
        for before, moved in by_state.items():
            self._moved(moved, state)
            self._journal.append(changes.PartitionsMoved([record.tp for record in moved], before, state))

    def _moved(self, records: Collection[PartitionRecord], state: PartitionState) -> None:
        self._indexes.moved(records, state)
        self._dirty.update(record.tp.topic for record in records)

    def waiting_partitions(self) -> list[TopicPartition]:
        """The partitions in New or Offline whose topic is not hidden: candidates for going online."""
        hidden = hidden_topics(self)
        return [tp for tp in self._indexes.waiting if tp.topic not in hidden]

    def waiting_partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the same for one topic, in a time proportional to the number of its partitions."""
        found = [] if is_hidden(self, topic) else self.partitions_of(topic)
        return [tp for tp in found if tp in self._indexes.waiting]

    def replica_state(self, replica: Replica) -> ReplicaState:
        """State of the replica state machine; NonExistent for an unknown replica."""
        record = self.find(replica.tp)
        return record.replica_states[replica.broker] if record is not None else ReplicaState.NON_EXISTENT

    def move_replicas(self, broker: BrokerId, records: Iterable[PartitionRecord], state: ReplicaState) -> None:
        """Take the same transition of replicas of one broker; NonExistent removes the entry.

        Replicas in that state already are left alone.
        """
        # ReplicaStates are immutable, and equal ones are one object: each is changed once for all its partitions.
        by_states: dict[ReplicaStates, list[PartitionRecord]] = {}
        for record in records:
            by_states.setdefault(record.replica_states, []).append(record)
        moved: dict[ReplicaState, list[TopicPartition]] = {}
        for states, alike in by_states.items():
            if states[broker] is not state:
                after = states.after(broker, state)
                for record in alike:
                    record.replica_states = after
                self._dirty.update({record.tp.topic for record in alike})
                moved.setdefault(states[broker], []).extend([record.tp for record in alike])
        self._journal += [changes.ReplicasMoved(broker, tps, before, state) for before, tps in moved.items()]

    # -- quarantine --------------------------------------------------------------------------------------------------

    def put_in_quarantine(self, path: str, reason: str) -> None:
        """Put a znode in quarantine: it is left unchanged until it can be parsed again, and the status shows it."""
        if self.quarantine.get(path) != reason:
            self.quarantine[path] = reason
            self._journal.append(changes.ZnodeQuarantined(path, reason))

    def take_out_of_quarantine(self, path: str) -> None:
        """Take a znode out of quarantine: it can be parsed again, or is gone."""
        if self.quarantine.pop(path, None):
            self._journal.append(changes.ZnodeReleased(path))
