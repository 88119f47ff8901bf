"""All replicas of one broker, with the requests of the controller and the fetches of followers applied to them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from broker.background import Signal
from broker.metadata_cache import MetadataCache
from broker.partition import HostedPartition, PendingIsrChange, ReplicaRole
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import EPOCH_DURING_DELETE, NO_EPOCH, BrokerId, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, StopReplicaPartition

log = structlog.get_logger(__name__)

NO_REPLICA = -1
"""The replica id of a consumer."""


class FollowedPartition(NamedTuple):
    """One partition of a fetch request."""

    tp: TopicPartition
    topic_id: str | None
    leader_epoch: int


class ReplicaManager:
    """The replicas of one broker. Sync and without I/O; ``clock`` gives monotonic seconds."""

    def __init__(self, broker: BrokerId, cache: MetadataCache, lag_s: float, clock: Callable[[], float]) -> None:
        self.roles_changed = Signal()
        self.isr_wanted = Signal()
        self._broker = broker
        self._cache = cache
        self._lag_s = lag_s
        self._clock = clock
        self._partitions: dict[TopicPartition, HostedPartition] = {}

    @property
    def partitions(self) -> Mapping[TopicPartition, HostedPartition]:
        """The replicas of this broker, for reading."""
        return self._partitions

    def become(
        self, partitions: Mapping[TopicPartition, LeaderAndIsrPartition], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, KafkaError]:
        """Apply a LeaderAndIsr whose epochs were accepted; return the result for each of its partitions."""
        results = {tp: self._become(tp, requested, topic_ids.get(tp.topic)) for tp, requested in partitions.items()}
        self.roles_changed.notify()
        return results

    def _become(self, tp: TopicPartition, requested: LeaderAndIsrPartition, topic_id: str | None) -> KafkaError:
        partition = self._partitions.setdefault(tp, HostedPartition(tp, self._broker))
        if None not in {topic_id, partition.topic_id} and topic_id != partition.topic_id:
            return KafkaError.INCONSISTENT_TOPIC_ID
        if requested.state.leader_epoch < partition.leader_epoch:
            return KafkaError.STALE_CONTROLLER_EPOCH
        if requested.state.leader_epoch == partition.leader_epoch:
            return _only_an_id(partition, topic_id)
        if self._broker not in requested.assignment.replicas:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        partition.topic_id = topic_id or partition.topic_id
        self._take_role(partition, requested)
        return KafkaError.NONE

    def _take_role(self, partition: HostedPartition, requested: LeaderAndIsrPartition) -> None:
        """Become leader or follower.

        As in Kafka, a role that cannot be taken is only logged: the response has no error, and the leader epoch is not
        stored.
        """
        leader, tp = requested.state.leader, str(partition.tp)
        if leader == self._broker:
            took = partition.make_leader(requested, self._clock())
        elif leader in self._cache.brokers:
            took = partition.make_follower(requested)
        else:
            log.error("refused role, leader is not live", partition=tp, leader=leader)
            return
        if took:
            log.info("took role", partition=tp, role=partition.role.value, leader=leader, epoch=partition.leader_epoch)
        else:
            log.warning("ignored older partition epoch", partition=tp, partition_epoch=requested.state.partition_epoch)

    def stop(self, partitions: Mapping[TopicPartition, StopReplicaPartition]) -> dict[TopicPartition, KafkaError]:
        """Apply a StopReplica whose epochs were accepted; return the result for each of its partitions."""
        results = {tp: self._stop(tp, requested) for tp, requested in partitions.items()}
        self.roles_changed.notify()
        return results

    def _stop(self, tp: TopicPartition, requested: StopReplicaPartition) -> KafkaError:
        partition = self._partitions.get(tp)
        if partition is None:
            return KafkaError.NONE
        unchecked = requested.leader_epoch in {EPOCH_DURING_DELETE, NO_EPOCH}
        if not unchecked and requested.leader_epoch < partition.leader_epoch:
            return KafkaError.FENCED_LEADER_EPOCH
        partition.stop()
        if requested.delete:
            del self._partitions[tp]
        log.info("stopped replica", partition=str(tp), delete=requested.delete)
        return KafkaError.NONE

    # -- as leader -----------------------------------------------------------------------------------------------------

    def fetched(self, replica: int, tp: TopicPartition, leader_epoch: int) -> KafkaError:
        """Return the error of a fetch from a partition. Leader epoch -1 is not checked; replica -1 is a consumer."""
        partition = self._partitions.get(tp)
        if partition is None:
            known = tp.partition in self._cache.topics.get(tp.topic, {})
            return KafkaError.NOT_LEADER_OR_FOLLOWER if known else KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        if leader_epoch not in {NO_EPOCH, partition.leader_epoch}:
            fenced = leader_epoch < partition.leader_epoch
            return KafkaError.FENCED_LEADER_EPOCH if fenced else KafkaError.UNKNOWN_LEADER_EPOCH
        if partition.role is not ReplicaRole.LEADER:
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        return KafkaError.NONE if replica == NO_REPLICA else self._follower_fetched(partition, BrokerId(replica))

    def _follower_fetched(self, partition: HostedPartition, replica: BrokerId) -> KafkaError:
        if replica not in partition.assignment.replicas:
            return KafkaError.UNKNOWN_LEADER_EPOCH
        partition.fetched(replica, self._clock(), live=replica in self._cache.brokers)
        if partition.pending is not None:
            self.isr_wanted.notify()
        return KafkaError.NONE

    def shrink_isrs(self) -> None:
        """Propose smaller ISRs where followers no longer fetch. The caller calls this every half of the lag."""
        now = self._clock()
        for partition in self._partitions.values():
            partition.shrink(now, self._lag_s)
        self.isr_wanted.notify()

    def isr_changes(self) -> dict[TopicPartition, PendingIsrChange]:
        """Return the ISR changes to request from the controller now."""
        return {
            tp: partition.pending
            for tp, partition in self._partitions.items()
            if partition.role is ReplicaRole.LEADER and partition.pending is not None and not partition.pending.stuck
        }

    # -- as follower ---------------------------------------------------------------------------------------------------

    def leaders(self) -> set[BrokerId]:
        """Return the brokers that this broker fetches from."""
        return {partition.leader for partition in self._partitions.values() if partition.fetching}

    def followed(self, leader: BrokerId) -> list[FollowedPartition]:
        """Return the partitions that this broker fetches from one leader."""
        return [
            FollowedPartition(tp, partition.topic_id, partition.leader_epoch)
            for tp, partition in self._partitions.items()
            if partition.fetching and partition.leader == leader
        ]

    def fenced(self, tp: TopicPartition, leader_epoch: int) -> None:
        """Stop fetching until the next LeaderAndIsr, after the leader refused an old leader epoch."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.leader_epoch == leader_epoch:
            partition.stop()


def _only_an_id(partition: HostedPartition, topic_id: str | None) -> KafkaError:
    """Refuse an equal leader epoch, unless the request contains the topic id that was missing (KIP-516)."""
    if topic_id is None or partition.topic_id is not None:
        return KafkaError.STALE_CONTROLLER_EPOCH
    partition.topic_id = topic_id
    return KafkaError.NONE
