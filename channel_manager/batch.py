"""The requests of one call of a state machine, gathered partition by partition and sent at once.

PURE. Values are copied when they are added. All brokers share one body of metadata, so the cost of a batch grows with
the sum of its partitions and brokers, and not with their product.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.invariants import check_sent_epoch
from controllerd.core.model import (
    EPOCH_DURING_DELETE,
    INITIAL_LEADER_EPOCH,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    TopicPartition,
)
from controllerd.core.records import PartitionRecord
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controllerd.errors import IllegalState

_PARTITION_EPOCH_DURING_DELETE: Final = 0
_first: Final = itemgetter(0)


class RequestBatch:
    """Collects requests for one use: it is filled, its requests are taken, and it is dropped.

    A broker id below zero means that there is no broker, and is left out.
    """

    def __init__(
        self,
        controller_id: int,
        context: ControllerContext,
        *,
        inter_broker_listener: str,
        our_entry: Broker | None = None,
    ) -> None:
        """``our_entry`` is the entry for controllerd itself in the metadata of brokers; None keeps it hidden."""
        self._controller_id = controller_id
        self._context = context
        self._listener = inter_broker_listener
        self._our_entry = our_entry
        self._clear()

    def _clear(self) -> None:
        self._leader_and_isr: defaultdict[BrokerId, dict[TopicPartition, LeaderAndIsrPartition]] = defaultdict(dict)
        self._has_new = False
        self._metadata: dict[TopicPartition, UpdateMetadataPartition] = {}
        self._metadata_brokers: set[BrokerId] = set()
        # LeaderAndIsr implies UpdateMetadata to all brokers. A flag says so, because a set of all brokers for each
        # partition would be slow.
        self._metadata_to_all = False
        self._stop_replica: defaultdict[BrokerId, dict[TopicPartition, StopReplicaPartition]] = defaultdict(dict)
        self._hidden: dict[str, bool] = {}
        """Whether topics are sent as deleted; computed once, because that looks at every partition of the topic."""

    def add_leader_and_isr(self, brokers: Iterable[BrokerId], tp: TopicPartition, *, is_new: bool) -> None:
        """Add the cached leadership of a partition for these brokers, and its metadata for all brokers.

        A newer state replaces the one that is in the batch, but a replica that was new stays new.

        :raises IllegalState: the partition has no leadership, so there is nothing to send.
        """
        record = self._context.find(tp)
        if record is None:
            raise IllegalState(f"LeaderAndIsr for {tp}, which is not known")
        self.add_leaderships([(record, tuple(brokers))], is_new=is_new)

    def add_leaderships(self, rows: Iterable[tuple[PartitionRecord, Sequence[BrokerId]]], *, is_new: bool) -> None:
        """As ``add_leader_and_isr``, for many partitions, each with the brokers that get it.

        :raises IllegalState: one of the partitions has no leadership.
        :raises InvariantBroken: brokers were sent a newer leadership before.
        """
        waiting, new, add_metadata = self._leader_and_isr, tuple.__new__, self._add_metadata
        has_new = self._has_new = self._has_new or is_new
        for record, brokers in rows:  # the hot loop of a failover: no call that can be spared, and fields by number
            self._metadata_to_all = True
            state, tp = record.leadership, record.tp
            if state is None:
                raise IllegalState(f"LeaderAndIsr for {tp}, which has no leadership")
            if state[1] != record.sent_epoch:
                check_sent_epoch(record, state[1])
                record.sent_epoch = state[1]
            entry = new(LeaderAndIsrPartition, (state, record.assignment, is_new))
            for broker in brokers:
                if broker >= 0:
                    partitions = waiting[broker]
                    partitions[tp] = self._stays_new(partitions, tp, entry) if has_new else entry
            add_metadata(record, state)

    @staticmethod
    def _stays_new(
        partitions: Mapping[TopicPartition, LeaderAndIsrPartition], tp: TopicPartition, entry: LeaderAndIsrPartition
    ) -> LeaderAndIsrPartition:
        before = partitions.get(tp)
        return entry._replace(is_new=True) if before is not None and before.is_new and not entry.is_new else entry

    def add_stop_replica(self, brokers: Iterable[BrokerId], tp: TopicPartition, *, delete: bool) -> None:
        """Add StopReplica of one partition for these brokers; a deletion that is in the batch stays a deletion."""
        leader_epoch = self._leader_epoch_to_stop(tp)
        for broker in brokers:
            if broker >= 0:
                waiting = self._stop_replica[broker]
                before = waiting.get(tp)
                waiting[tp] = StopReplicaPartition(leader_epoch, delete or (before is not None and before.delete))

    def add_stops(self, broker: BrokerId, records: Iterable[PartitionRecord], *, delete: bool) -> None:
        """As ``add_stop_replica``, for many replicas of one broker; does nothing if the broker is not registered."""
        if broker in self._context.brokers:
            for record in records:
                self.add_stop_replica((broker,), record.tp, delete=delete)

    def _leader_epoch_to_stop(self, tp: TopicPartition) -> int:
        if self._context.queued_for_deletion and self._is_hidden(tp.topic):
            return EPOCH_DURING_DELETE
        leadership = self._context.leadership(tp)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    def add_update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        """Add UpdateMetadata for these brokers: the list of live brokers, and these partitions.

        Every broker of the batch gets every partition of the batch. Partitions are added as by ``add_metadata``.
        """
        self._metadata_brokers.update(broker for broker in brokers if broker >= 0)
        records = (self._context.find(tp) for tp in partitions)
        self.add_metadata(record for record in records if record is not None)

    def add_metadata(self, records: Iterable[PartitionRecord]) -> None:
        """Add the metadata of these partitions, for all brokers that get metadata.

        A partition without leadership is left out. The exception is a deleted partition whose state is in quarantine:
        brokers may know it from an earlier controller, and only this makes them forget it.
        """
        for record in records:
            if record.leadership is not None:
                self._add_metadata(record, record.leadership)
            elif record.tp.state_path in self._context.quarantine and self._is_hidden(record.tp.topic):
                self._add_metadata(record, _unknown(self._context.epoch))

    def add_removals(self, broker: BrokerId, removals: Mapping[TopicPartition, UpdateMetadataPartition]) -> None:
        """Add removals from the metadata of one broker, even if topics of the same names exist again.

        Use a separate batch for them, because every broker of a batch gets every partition of it.
        """
        self._metadata_brokers.add(broker)
        self._metadata.update(removals)

    def _add_metadata(self, record: PartitionRecord, state: LeaderAndIsr) -> None:
        if self._context.queued_for_deletion and self._is_hidden(record.tp.topic):
            state = _during_delete(state)
        offline = self._context.liveness.offline(record)
        values = (state, record.assignment.replicas, offline)
        self._metadata[record.tp] = tuple.__new__(UpdateMetadataPartition, values)

    def _is_hidden(self, topic: str) -> bool:
        hidden = self._hidden.get(topic)
        if hidden is None:
            hidden = self._hidden[topic] = is_hidden(self._context, topic)
        return hidden

    @property
    def reaches_every_broker(self) -> bool:
        """Whether every registered broker gets the list of live brokers."""
        return self._metadata_to_all or self._metadata_brokers >= self._context.brokers.keys()

    def take(self) -> list[tuple[BrokerId, ControlRequest]]:
        """The requests in the order in which they are sent; the batch is empty afterwards.

        Brokers that are not registered (any more) get nothing; broker epochs are those of this moment.
        """
        return list(self.requests())

    def requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
        """As ``take``, one by one; the batch is empty at the end. Nothing may be added in between."""
        ids = self._topic_ids()
        yield from self._leader_and_isr_requests(ids)
        yield from self._update_metadata_requests(ids)
        yield from self._stop_replica_requests()
        self._clear()

    def _leader_and_isr_requests(self, ids: Mapping[str, str]) -> Iterable[tuple[BrokerId, ControlRequest]]:
        for broker, partitions in sorted(self._leader_and_isr.items(), key=_broker):
            if broker in self._context.brokers:
                yield broker, self._leader_and_isr_request(broker, partitions, ids)

    def _leader_and_isr_request(
        self,
        broker: BrokerId,
        partitions: Mapping[TopicPartition, LeaderAndIsrPartition],
        ids: Mapping[str, str],
    ) -> LeaderAndIsrRequest:
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            partitions=partitions,
            topic_ids=ids,
            live_leaders=self._live_leaders(partitions),
        )

    def _live_leaders(
        self, partitions: Mapping[TopicPartition, LeaderAndIsrPartition]
    ) -> tuple[tuple[BrokerId, Endpoint], ...]:
        """Leaders without the listener are left out: one broken registration must not stop all requests."""
        # The first field of an entry is the state, and the first field of a state is the leader; map is faster here.
        leaders = set(map(_first, map(_first, partitions.values())))
        live = [self._context.brokers[leader] for leader in sorted(leaders) if leader in self._context.brokers]
        endpoints = ((broker.id, broker.endpoint(self._listener)) for broker in live)
        return tuple((broker, endpoint) for broker, endpoint in endpoints if endpoint is not None)

    def _update_metadata_requests(self, ids: Mapping[str, str]) -> Iterable[tuple[BrokerId, ControlRequest]]:
        registered = self._context.brokers
        wanted = set(registered) if self._metadata_to_all else self._metadata_brokers & registered.keys()
        if not wanted:
            return
        body = UpdateMetadataBody(self._metadata, ids, self._live_brokers())
        for broker in sorted(wanted):
            epoch = registered[broker].epoch
            yield broker, UpdateMetadataRequest(self._controller_id, self._context.epoch, epoch, body)

    def _live_brokers(self) -> tuple[Broker, ...]:
        live = [self._context.brokers[broker] for broker in sorted(self._context.brokers)]
        return (*live, self._our_entry) if self._our_entry is not None else tuple(live)

    def _stop_replica_requests(self) -> Iterable[tuple[BrokerId, ControlRequest]]:
        for broker, partitions in sorted(self._stop_replica.items(), key=_broker):
            if broker in self._context.brokers:
                epoch = self._context.brokers[broker].epoch
                yield broker, StopReplicaRequest(self._controller_id, self._context.epoch, epoch, partitions)

    def _topic_ids(self) -> dict[str, str]:
        """Return the id of every topic of the batch that has one.

        The topics of the metadata are all topics, because each leadership is added together with its metadata.

        The protocol version makes no difference here. Too low a version withholds ids from new
        topics, but a broker that gets a topic without its id forgets the id
        (``ZkMetadataCache.updateMetadata``), and fetches and consumers of that topic fail.
        """
        ids = {topic: self._context.topic_id(topic) for topic in set(map(_first, self._metadata))}
        return {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}


def _broker(item: tuple[BrokerId, object]) -> BrokerId:
    return item[0]


def _unknown(controller_epoch: int) -> LeaderAndIsr:
    """The state in the metadata of a deleted partition whose znode cannot be parsed, with our controller epoch."""
    return LeaderAndIsr(
        LEADER_DURING_DELETE, INITIAL_LEADER_EPOCH, (), controller_epoch, _PARTITION_EPOCH_DURING_DELETE
    )


def _during_delete(state: LeaderAndIsr) -> LeaderAndIsr:
    return state._replace(
        leader=LEADER_DURING_DELETE, leader_epoch=INITIAL_LEADER_EPOCH, partition_epoch=_PARTITION_EPOCH_DURING_DELETE
    )
