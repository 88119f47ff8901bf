"""Random control requests, to compare the hand-made encoders with kio."""

import base64
import uuid
from typing import Any

from hypothesis import strategies as st

from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    SecurityProtocol,
    TopicPartition,
)
from controllerd.core.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from wire.primitives import topic_id_text

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(codec="utf-8"), max_size=40)
topics = st.sampled_from(["t", "orders", "a" * 249, "größe"])
partitions = st.builds(TopicPartition, topics, int32)
brokers = st.integers(0, 2**31 - 1).map(BrokerId)
# 200 replicas need two bytes for their number in the flexible format.
broker_lists = st.one_of(
    st.lists(brokers, max_size=5).map(tuple), st.just(tuple(BrokerId(number) for number in range(200)))
)
topic_ids = st.dictionaries(topics, st.uuids().map(lambda value: topic_id_text(value.bytes) or ""))
endpoints = st.builds(
    Endpoint, listener=text, host=text, port=st.integers(-1, 65535), security_protocol=st.sampled_from(SecurityProtocol)
)
states = st.builds(
    LeaderAndIsr,
    leader=int32.map(BrokerId),
    leader_epoch=int32,
    isr=broker_lists,
    controller_epoch=int32,
    partition_epoch=int32,
    recovery_state=st.sampled_from(LeaderRecoveryState),
)
assignments = st.builds(ReplicaAssignment, replicas=broker_lists, adding=broker_lists, removing=broker_lists)
leader_and_isr_requests = st.builds(
    LeaderAndIsrRequest,
    controller_id=int32,
    controller_epoch=int32,
    broker_epoch=int64,
    partitions=st.dictionaries(
        partitions, st.builds(LeaderAndIsrPartition, state=states, assignment=assignments, is_new=st.booleans())
    ),
    topic_ids=topic_ids,
    live_leaders=st.lists(st.tuples(brokers, endpoints), max_size=4).map(tuple),
)
live_brokers = st.builds(
    Broker, id=brokers, epoch=int64, endpoints=st.lists(endpoints, max_size=3).map(tuple), rack=st.none() | text
)
bodies = st.builds(
    UpdateMetadataBody,
    partitions=st.dictionaries(
        partitions,
        st.builds(UpdateMetadataPartition, state=states, replicas=broker_lists, offline_replicas=broker_lists),
    ),
    topic_ids=topic_ids,
    live_brokers=st.lists(live_brokers, max_size=4).map(tuple),
)
update_metadata_requests = st.builds(
    UpdateMetadataRequest, controller_id=int32, controller_epoch=int32, broker_epoch=int64, body=bodies
)
stop_replica_requests = st.builds(
    StopReplicaRequest,
    controller_id=int32,
    controller_epoch=int32,
    broker_epoch=int64,
    partitions=st.dictionaries(partitions, st.builds(StopReplicaPartition, leader_epoch=int32, delete=st.booleans())),
)


def topic_uuid(ids: Any, topic: str) -> uuid.UUID | None:
    """The id of a topic as kio has it."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(ids[topic] + "==")) if topic in ids else None
