"""Answer Metadata and DescribeCluster from the snapshot, for the clients of one listener."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH, NO_LEADER, BrokerId, Endpoint, LeaderAndIsr
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView, TopicView
from wire.api_metadata import (
    NO_OPERATIONS,
    MetadataHead,
    MetadataQuery,
    MetadataRequestTopic,
    NodeRow,
    PartitionRow,
    TopicRow,
)

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_LEGAL_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_LISTENER_ERROR_FROM: Final = 6
_IDS_AND_NULL_NAMES_FROM: Final = 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(3, 4, 5, 6, 7, 8, 10, 11)
"""All operations on topics: read, write, create, delete, alter, describe, and both on configs (KIP-430)."""
CLUSTER_OPERATIONS: Final = _bits(5, 7, 8, 9, 10, 11, 12)
"""All operations on the cluster: create, alter, describe, cluster action, both on configs, idempotent write."""
_NO_STATE: Final = LeaderAndIsr(NO_LEADER, NO_EPOCH, (), NO_EPOCH, NO_EPOCH)
"""The leadership of a partition that has no state znode yet."""


class MetadataView:
    """The current metadata for one listener. It must be used within one turn of the event loop, or row by row."""

    def __init__(self, snapshot: ClusterSnapshot, own: Endpoint, version: int) -> None:
        """``own`` is our endpoint of the listener; ``version`` is that of Metadata, whose rules differ."""
        self._snapshot = snapshot
        self._own = own
        self._version = version
        self._brokers = snapshot.brokers
        self._reachable = frozenset(b.id for b in self._brokers.values() if b.endpoint(own.listener) is not None)

    def nodes(self) -> list[NodeRow]:
        """Return the live brokers that have the listener, and this node."""
        rows = [
            NodeRow(broker.id, endpoint.host, endpoint.port, broker.rack)
            for broker in self._brokers.values()
            if (endpoint := broker.endpoint(self._own.listener)) is not None and broker.id != self._snapshot.node_id
        ]
        entry = self._snapshot.our_entry
        # A client of this node can reach it, so it is listed even in hidden mode: admin clients need a controller.
        rows.append(NodeRow(self._snapshot.node_id, self._own.host, self._own.port, entry.rack if entry else None))
        return rows

    def head(self, query: MetadataQuery) -> MetadataHead:
        """Return the response without the topics."""
        return MetadataHead(
            self.nodes(),
            self._snapshot.cluster_id or None,
            self._snapshot.node_id,
            TOPIC_OPERATIONS if query.wants_topic_operations else NO_OPERATIONS,
            CLUSTER_OPERATIONS if query.wants_cluster_operations else NO_OPERATIONS,
        )

    def topics(self, wanted: Sequence[MetadataRequestTopic] | None) -> list[TopicRow]:
        """Return the requested topics, or all."""
        if wanted is None:
            return [self._row(topic) for topic in self._snapshot.topics.values() if not topic.is_hidden]
        if self._version < _IDS_AND_NULL_NAMES_FROM and any(item.name is None or item.topic_id for item in wanted):
            return [_refused(KafkaError.INVALID_REQUEST, item) for item in wanted]
        return [self._find(item) for item in dict.fromkeys(wanted)]

    def _find(self, wanted: MetadataRequestTopic) -> TopicRow:
        if wanted.topic_id is not None:
            name = self._snapshot.names_by_id.get(wanted.topic_id, "")
            topic = self._shown(name)
            return (
                self._row(topic)
                if topic
                else _refused(KafkaError.UNKNOWN_TOPIC_ID, MetadataRequestTopic(None, wanted.topic_id))
            )
        topic = self._shown(wanted.name or "")
        if topic is not None:
            return self._row(topic)
        is_legal = _LEGAL_NAME.fullmatch(wanted.name or "") is not None
        error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION if is_legal else KafkaError.INVALID_TOPIC_EXCEPTION
        return _refused(error, wanted)

    def _shown(self, name: str) -> TopicView | None:
        """Return a topic that clients may see; brokers drop a topic from their metadata when its deletion begins."""
        topic = self._snapshot.topics.get(name)
        return topic if topic is not None and not topic.is_hidden else None

    def _row(self, topic: TopicView) -> TopicRow:
        rows = self._partitions(topic.partitions)
        is_internal = topic.name in INTERNAL_TOPICS
        return TopicRow(KafkaError.NONE, topic.name, topic.topic_id, is_internal, rows, len(topic.partitions))

    def _partitions(self, partitions: Iterable[PartitionView]) -> Iterator[PartitionRow]:
        return (self._partition(partition) for partition in partitions)

    def _partition(self, view: PartitionView) -> PartitionRow:
        state, replicas = view.leadership or _NO_STATE, view.assignment.replicas
        error, leader, isr = self._leader_error(state), state.leader, state.isr
        if self._version == 0:
            error, replicas, isr = self._without_unreachable(error, replicas, isr)
        if error in (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.LISTENER_NOT_FOUND):
            leader = NO_LEADER
        return PartitionRow(error, view.partition, leader, state.leader_epoch, replicas, isr, view.offline_replicas)

    def _leader_error(self, state: LeaderAndIsr) -> KafkaError:
        if state.leader in self._reachable:
            return KafkaError.NONE
        if state.leader in self._brokers and self._version >= _LISTENER_ERROR_FROM:
            return KafkaError.LISTENER_NOT_FOUND
        return KafkaError.LEADER_NOT_AVAILABLE

    def _without_unreachable(
        self, error: KafkaError, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...]
    ) -> tuple[KafkaError, tuple[BrokerId, ...], tuple[BrokerId, ...]]:
        """Leave out unreachable replicas, and report an error for them.

        Clients of version 0 fail on a replica that is not among the nodes of the response.
        """
        reachable = tuple(replica for replica in replicas if replica in self._reachable)
        in_sync = tuple(replica for replica in isr if replica in self._reachable)
        if error is KafkaError.NONE and (len(reachable) < len(replicas) or len(in_sync) < len(isr)):
            error = KafkaError.REPLICA_NOT_AVAILABLE
        return error, reachable, in_sync


def unknown_names(query: MetadataQuery, topics: Mapping[str, TopicView]) -> list[str]:
    """Return the requested names that no topic has: candidates for auto-creation."""
    return [item.name for item in query.topics or () if item.name is not None and item.name not in topics]


def _refused(error: KafkaError, wanted: MetadataRequestTopic) -> TopicRow:
    return TopicRow(error, wanted.name, wanted.topic_id, wanted.name in INTERNAL_TOPICS, (), 0)
