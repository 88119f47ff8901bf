"""All replicas of one broker, and how they take what the controller and their followers say."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from broker.background import Signal
from broker.metadata_cache import MetadataCache
from broker.partition import IsrChange, Partition, Role
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
        self._partitions: dict[TopicPartition, Partition] = {}

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The replicas that this broker knows of, for reading."""
        return self._partitions

    def become(
        self, partitions: Mapping[TopicPartition, LeaderAndIsrPartition], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, KafkaError]:
        """Take a LeaderAndIsr that passed the gate; the result for each of its partitions."""
        results = {tp: self._become(tp, told, topic_ids.get(tp.topic)) for tp, told in partitions.items()}
        self.roles_changed.notify()
        return results

    def _become(self, tp: TopicPartition, told: LeaderAndIsrPartition, topic_id: str | None) -> KafkaError:
        partition = self._partitions.setdefault(tp, Partition(tp, self._broker))
        if None not in {topic_id, partition.topic_id} and topic_id != partition.topic_id:
            return KafkaError.INCONSISTENT_TOPIC_ID
        if told.state.leader_epoch < partition.leader_epoch:
            return KafkaError.STALE_CONTROLLER_EPOCH
        if told.state.leader_epoch == partition.leader_epoch:
            return _only_an_id(partition, topic_id)
        if self._broker not in told.assignment.replicas:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        partition.topic_id = topic_id or partition.topic_id
        self._take_role(partition, told)
        return KafkaError.NONE

    def _take_role(self, partition: Partition, told: LeaderAndIsrPartition) -> None:
        """Both refusals are silent: the answer is NONE, and the leader epoch is not stored."""
        leader, tp = told.state.leader, str(partition.tp)
        if leader == self._broker:
            took = partition.make_leader(told, self._clock())
        elif leader in self._cache.brokers:
            took = partition.make_follower(told)
        else:
            log.error("leader is not available, role not taken", partition=tp, leader=leader)
            return
        if took:
            log.info("role taken", partition=tp, role=partition.role.value, leader=leader, epoch=partition.leader_epoch)
        else:
            log.warning("older partition epoch ignored", partition=tp, partition_epoch=told.state.partition_epoch)

    def stop(self, partitions: Mapping[TopicPartition, StopReplicaPartition]) -> dict[TopicPartition, KafkaError]:
        """Take a StopReplica that passed the gate; the result for each of its partitions."""
        results = {tp: self._stop(tp, told) for tp, told in partitions.items()}
        self.roles_changed.notify()
        return results

    def _stop(self, tp: TopicPartition, told: StopReplicaPartition) -> KafkaError:
        partition = self._partitions.get(tp)
        if partition is None:
            return KafkaError.NONE
        unchecked = told.leader_epoch in {EPOCH_DURING_DELETE, NO_EPOCH}
        if not unchecked and told.leader_epoch < partition.leader_epoch:
            return KafkaError.FENCED_LEADER_EPOCH
        partition.stop()
        if told.delete:
            del self._partitions[tp]
        log.info("replica stopped", partition=str(tp), delete=told.delete)
        return KafkaError.NONE

    # -- as leader -----------------------------------------------------------------------------------------------------

    def fetched(self, replica: int, tp: TopicPartition, leader_epoch: int) -> KafkaError:
        """Answer a fetch of the end of a partition; ``leader_epoch`` -1 is not checked, replica -1 is a consumer."""
        partition = self._partitions.get(tp)
        if partition is None:
            known = tp.partition in self._cache.topics.get(tp.topic, {})
            return KafkaError.NOT_LEADER_OR_FOLLOWER if known else KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        if leader_epoch not in {NO_EPOCH, partition.leader_epoch}:
            fenced = leader_epoch < partition.leader_epoch
            return KafkaError.FENCED_LEADER_EPOCH if fenced else KafkaError.UNKNOWN_LEADER_EPOCH
        if partition.role is not Role.LEADER:
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        return KafkaError.NONE if replica == NO_REPLICA else self._follower_fetched(partition, BrokerId(replica))

    def _follower_fetched(self, partition: Partition, replica: BrokerId) -> KafkaError:
        if replica not in partition.assignment.replicas:
            return KafkaError.UNKNOWN_LEADER_EPOCH
        partition.fetched(replica, self._clock(), live=replica in self._cache.brokers)
        if partition.pending is not None:
            self.isr_wanted.notify()
        return KafkaError.NONE

    def shrink_isrs(self) -> None:
        """Propose smaller ISRs where followers no longer fetch. To be called every half of the lag."""
        now = self._clock()
        for partition in self._partitions.values():
            partition.shrink(now, self._lag_s)
        self.isr_wanted.notify()

    def isr_changes(self) -> dict[TopicPartition, IsrChange]:
        """The ISR changes to request from the controller now."""
        return {
            tp: partition.pending
            for tp, partition in self._partitions.items()
            if partition.role is Role.LEADER and partition.pending is not None and not partition.pending.stuck
        }

    # -- as follower ---------------------------------------------------------------------------------------------------

    def leaders(self) -> set[BrokerId]:
        """The brokers that we fetch from."""
        return {partition.leader for partition in self._partitions.values() if partition.fetching}

    def followed(self, leader: BrokerId) -> list[FollowedPartition]:
        """The partitions that we fetch from one leader."""
        return [
            FollowedPartition(tp, partition.topic_id, partition.leader_epoch)
            for tp, partition in self._partitions.items()
            if partition.fetching and partition.leader == leader
        ]

    def fenced(self, tp: TopicPartition, leader_epoch: int) -> None:
        """The leader says that we follow an old leader epoch: stop until the next LeaderAndIsr."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.leader_epoch == leader_epoch:
            partition.stop()


def _only_an_id(partition: Partition, topic_id: str | None) -> KafkaError:
    """An equal leader epoch is nothing new, unless it brings the topic id that was missing (KIP-516)."""
    if topic_id is None or partition.topic_id is not None:
        return KafkaError.STALE_CONTROLLER_EPOCH
    partition.topic_id = topic_id
    return KafkaError.NONE
