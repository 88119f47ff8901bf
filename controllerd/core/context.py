"""The controller's picture of the cluster, its indexes, and the only methods that change it.

One writer: the event task. Every mutation leaves a value in the journal (``changes.py``), from which the audit log is
written, and marks the topics that readers must see anew. Queries by broker and by leader are index lookups.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from controllerd.core.changes import (
    AssignmentSet,
    BrokerGone,
    BrokerLive,
    BrokerShuttingDown,
    Change,
    LeadershipSet,
    OfflineDirsSet,
    PartitionMoved,
    Quarantined,
    Released,
    ReplicaMoved,
    TopicForgotten,
    TopicKnown,
)
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

_WAITING = frozenset({PartitionState.NEW, PartitionState.OFFLINE})


class PartitionRecord:
    """Everything known of one partition. Changed by the context alone."""

    __slots__ = ("assignment", "leadership", "replica_states", "state")

    def __init__(self, assignment: ReplicaAssignment) -> None:
        self.assignment = assignment
        self.leadership: LeaderAndIsr | None = None
        self.state = PartitionState.NON_EXISTENT
        self.replica_states: dict[BrokerId, ReplicaState] = {}


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


class ControllerContext:
    """The cluster as the active controller knows it. ``reset`` makes it empty again."""

    def __init__(self, features: Features | None = None) -> None:
        self.features = features or Features()
        self._journal: list[Change] = []
        self._taken = 0
        self._dirty: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Forget everything; the term is over. Readers are told that every topic changed."""
        self._dirty.update(getattr(self, "topics", ()))
        self.epoch = 0
        self.epoch_zk_version = 0
        self.brokers: dict[BrokerId, Broker] = {}
        self.shutting_down: set[BrokerId] = set()
        self.topics: dict[str, TopicRecord] = {}
        self.topic_names: dict[str, str] = {}
        self.being_reassigned: set[TopicPartition] = set()
        self.queued_for_deletion: set[str] = set()
        self.offline_dirs: dict[BrokerId, frozenset[TopicPartition]] = {}
        self.quarantine: dict[str, str] = {}
        self._on_broker: defaultdict[BrokerId, set[TopicPartition]] = defaultdict(set)
        self._led_by: defaultdict[BrokerId, set[TopicPartition]] = defaultdict(set)
        self._waiting: set[TopicPartition] = set()
        self.take_changes()

    def begin_term(self, epoch: int, epoch_zk_version: int) -> None:
        """We were elected with this controller epoch, written at this version of ``/controller_epoch``."""
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version

    def take_changes(self) -> list[Change]:
        """The mutations since the last call, in order."""
        changes, self._journal = self._journal, []
        self._taken += len(changes)
        return changes

    @property
    def change_count(self) -> int:
        """How many mutations there were so far, taken or not; it only grows."""
        return self._taken + len(self._journal)

    def take_dirty_topics(self) -> set[str]:
        """The topics whose picture changed (or that are gone) since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    # -- brokers -----------------------------------------------------------------------------------------------------

    @property
    def live_or_shutting_down(self) -> AbstractSet[BrokerId]:
        """Every registered broker that we serve, those in controlled shutdown included."""
        return self.brokers.keys()

    @property
    def live(self) -> set[BrokerId]:
        """The brokers that may become leaders and ISR members."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker: BrokerId, tp: TopicPartition, *, include_shutting_down: bool = False) -> bool:
        """Whether this replica can be read and written: its broker is live and its log directory is good."""
        if broker not in self.brokers or (broker in self.shutting_down and not include_shutting_down):
            return False
        return tp not in self.offline_dirs.get(broker, ())

    def add_broker(self, broker: Broker) -> None:
        """A broker is live from now on; also used when its registration changed."""
        self.brokers[broker.id] = broker
        self._touch_broker(broker.id)
        self._journal.append(BrokerLive(broker))

    def remove_broker(self, broker: BrokerId) -> None:
        """A broker is dead: no longer live, no longer shutting down, no known bad directories."""
        if self.brokers.pop(broker, None) is None:
            return
        self.shutting_down.discard(broker)
        self.offline_dirs.pop(broker, None)
        self._touch_broker(broker)
        self._journal.append(BrokerGone(broker))

    def mark_shutting_down(self, broker: BrokerId) -> None:
        """The broker asked for controlled shutdown; it stays so until it dies or bounces."""
        if broker not in self.shutting_down:
            self.shutting_down.add(broker)
            self._touch_broker(broker)
            self._journal.append(BrokerShuttingDown(broker))

    def set_offline_dirs(self, broker: BrokerId, partitions: frozenset[TopicPartition]) -> None:
        """These are the partitions of the broker that sit on a failed log directory."""
        if partitions != self.offline_dirs.get(broker, frozenset()):
            self.offline_dirs[broker] = partitions
            self._touch_broker(broker)
            self._journal.append(OfflineDirsSet(broker, partitions))

    def _touch_broker(self, broker: BrokerId) -> None:
        self._dirty.update(tp.topic for tp in self._on_broker.get(broker, ()))

    # -- topics ------------------------------------------------------------------------------------------------------

    def put_topic(self, image: TopicImage) -> None:
        """A topic znode was read: remember it, and every partition of it that is not known yet.

        The assignment of a partition that is known stays as it is (``set_assignment`` changes one).
        """
        record = self.topics.get(image.name)
        if record is None:
            record = self.topics[image.name] = TopicRecord(image)
        self._update_topic(record, image)
        for partition, assignment in image.assignments.items():
            if partition not in record.partitions:
                self._add_partition(record, TopicPartition(image.name, partition), assignment)

    def _update_topic(self, record: TopicRecord, image: TopicImage) -> None:
        if record.topic_id is not None and record.topic_id != image.topic_id:
            self.topic_names.pop(record.topic_id, None)
        record.topic_id, record.znode_version = image.topic_id, image.znode_version
        record.format_version, record.extra, record.czxid = image.format_version, image.extra, image.czxid
        if image.topic_id is not None:
            self.topic_names[image.topic_id] = image.name
        self._dirty.add(image.name)
        self._journal.append(TopicKnown(image.name, image.topic_id, image.znode_version))

    def _add_partition(self, topic: TopicRecord, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        topic.partitions[tp.partition] = PartitionRecord(assignment)
        self._index_assignment(tp, ReplicaAssignment(()), assignment)

    def set_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        """The assignment of a known partition changed in its topic znode."""
        record = self.record(tp)
        before, record.assignment = record.assignment, assignment
        self._index_assignment(tp, before, assignment)

    def _index_assignment(self, tp: TopicPartition, before: ReplicaAssignment, after: ReplicaAssignment) -> None:
        for broker in before.replicas:
            if broker not in after.replicas:
                self._on_broker[broker].discard(tp)
        for broker in after.replicas:
            self._on_broker[broker].add(tp)
        (self.being_reassigned.add if after.is_being_reassigned else self.being_reassigned.discard)(tp)
        self._dirty.add(tp.topic)
        self._journal.append(AssignmentSet(tp, after))

    def remove_topic(self, name: str) -> None:
        """Forget a topic with its partitions, states and indexes (KAFKA-9478: nothing may stay behind)."""
        record = self.topics.pop(name, None)
        if record is None:
            return
        if record.topic_id is not None:
            self.topic_names.pop(record.topic_id, None)
        for partition, known in record.partitions.items():
            self._forget_partition(TopicPartition(name, partition), known)
        self.queued_for_deletion.discard(name)
        self._dirty.add(name)
        self._journal.append(TopicForgotten(name))

    def _forget_partition(self, tp: TopicPartition, known: PartitionRecord) -> None:
        for broker in known.assignment.replicas:
            self._on_broker[broker].discard(tp)
        if known.leadership is not None:
            self._led_by[known.leadership.leader].discard(tp)
        self._waiting.discard(tp)
        self.being_reassigned.discard(tp)
        for broker, partitions in self.offline_dirs.items():
            if tp in partitions:
                self.offline_dirs[broker] = partitions - {tp}

    def topic_id(self, topic: str) -> str | None:
        """The id of a known topic, or None."""
        record = self.topics.get(topic)
        return record.topic_id if record is not None else None

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Whether deletion of the topic was requested and will be carried out by us."""
        return topic in self.queued_for_deletion

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

    def partitions(self) -> Iterator[TopicPartition]:
        """Every assigned partition."""
        for name, topic in self.topics.items():
            for partition in topic.partitions:
                yield TopicPartition(name, partition)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of one topic; none if it is unknown."""
        record = self.topics.get(topic)
        return [TopicPartition(topic, partition) for partition in record.partitions] if record is not None else []

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """The assignment of a partition; empty when it is unknown."""
        record = self.find(tp)
        return record.assignment if record is not None else ReplicaAssignment(())

    def leadership(self, tp: TopicPartition) -> LeaderAndIsr | None:
        """The cached content of the state znode, None while it does not exist."""
        record = self.find(tp)
        return record.leadership if record is not None else None

    def set_leadership(self, tp: TopicPartition, leadership: LeaderAndIsr) -> None:
        """The state znode was read or written with this content."""
        record = self.record(tp)
        before, record.leadership = record.leadership, leadership
        if before == leadership:
            return
        if before is not None:
            self._led_by[before.leader].discard(tp)
        self._led_by[leadership.leader].add(tp)
        self._dirty.add(tp.topic)
        self._journal.append(LeadershipSet(tp, leadership))

    def replicas_on(self, brokers: Iterable[BrokerId]) -> list[Replica]:
        """Every replica that these brokers host by assignment."""
        return [Replica(tp, broker) for broker in brokers for tp in self._on_broker.get(broker, ())]

    def partitions_on(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The partitions with a replica on this broker."""
        return self._on_broker.get(broker, frozenset())

    def partitions_led_by(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The partitions whose cached leader is this broker (-1: those without leader)."""
        return self._led_by.get(broker, frozenset())

    def partitions_without_online_leader(self) -> list[TopicPartition]:
        """Partitions with leadership whose leader is not online; topics queued for deletion are left out."""
        found = []
        for leader, led in self._led_by.items():
            if leader in self.brokers and leader not in self.shutting_down and leader not in self.offline_dirs:
                continue
            found += [tp for tp in led if not self.is_online(leader, tp) and tp.topic not in self.queued_for_deletion]
        return found

    # -- states ------------------------------------------------------------------------------------------------------

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        """State of the partition state machine; NonExistent for an unknown partition."""
        record = self.find(tp)
        return record.state if record is not None else PartitionState.NON_EXISTENT

    def set_partition_state(self, tp: TopicPartition, state: PartitionState) -> None:
        """A transition that the table allows was carried out."""
        record = self.record(tp)
        before, record.state = record.state, state
        if before is state:
            return
        (self._waiting.add if state in _WAITING else self._waiting.discard)(tp)
        self._dirty.add(tp.topic)
        self._journal.append(PartitionMoved(tp, before, state))

    def waiting_partitions(self) -> list[TopicPartition]:
        """The partitions in New or Offline whose topic is not queued for deletion: candidates for going online."""
        return [tp for tp in self._waiting if tp.topic not in self.queued_for_deletion]

    def offline_partition_count(self) -> int:
        """How many partitions are Offline (KafkaController.OfflinePartitionsCount)."""
        return sum(1 for tp in self.waiting_partitions() if self.record(tp).state is PartitionState.OFFLINE)

    def replica_state(self, replica: Replica) -> ReplicaState:
        """State of the replica state machine; NonExistent for an unknown replica."""
        record = self.find(replica.tp)
        return (
            record.replica_states.get(replica.broker, ReplicaState.NON_EXISTENT)
            if record
            else ReplicaState.NON_EXISTENT
        )

    def set_replica_state(self, replica: Replica, state: ReplicaState) -> None:
        """A transition that the table allows was carried out; NonExistent removes the entry."""
        states = self.record(replica.tp).replica_states
        before = states.get(replica.broker, ReplicaState.NON_EXISTENT)
        if before is state:
            return
        if state is ReplicaState.NON_EXISTENT:
            del states[replica.broker]
        else:
            states[replica.broker] = state
        self._journal.append(ReplicaMoved(replica.tp, replica.broker, before, state))

    # -- quarantine --------------------------------------------------------------------------------------------------

    def put_in_quarantine(self, path: str, reason: str) -> None:
        """Leave this znode alone until it can be understood; visible in status."""
        if self.quarantine.get(path) != reason:
            self.quarantine[path] = reason
            self._journal.append(Quarantined(path, reason))

    def release(self, path: str) -> None:
        """The znode can be understood again, or is gone."""
        if self.quarantine.pop(path, None) is not None:
            self._journal.append(Released(path))

    def offline_replicas(self, tp: TopicPartition) -> tuple[BrokerId, ...]:
        """The assigned replicas that are not online, in assignment order."""
        return tuple(broker for broker in self.assignment(tp).replicas if not self.is_online(broker, tp))

    def epochs(self) -> Mapping[BrokerId, int]:
        """Broker epochs of every live or shutting-down broker."""
        return {broker.id: broker.epoch for broker in self.brokers.values()}
