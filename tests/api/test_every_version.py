"""Every advertised version of every native API is answered with bytes of that version's schema, as kio decodes it."""

from collections.abc import Iterator

import pytest

from controllerd.api.catalog import FORWARDED, NATIVE
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment, TopicPartition
from events.admin import (
    AllocateProducerIds,
    AlterScram,
    ControlledShutdown,
    ControlledShutdownReply,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MutationReply,
    ProducerIdBlock,
    TopicOutcome,
    UpdateFeatures,
)
from events.base import Event
from events.elections import ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment, ListPartitionReassignments
from events.replicas import AlterPartitionReceived, AlterPartitionReply
from tests.api.cluster import NODE_ID, TOPIC_ID, TOPIC_UUID, new_snapshot, replicas, running
from wire.versions import ApiKey

ADMIN_VALUES: dict[str, object] = {
    "election_type": 0,
    "topic_partitions": [{"topic": "orders", "partitions": (0, 1)}],
    "topics": [
        {"name": "orders", "partitions": [{"partition_index": 0, "replicas": (1, 2)}], "partition_indexes": (0,)}
    ],
    "deletions": [{"name": "alice", "mechanism": 1}],
    "upsertions": [{"name": "bob", "mechanism": 2, "iterations": 4096, "salt": b"s", "salted_password": b"p"}],
    "feature_updates": [{"feature": "metadata.version", "max_version_level": 1, "allow_downgrade": False}],
}
MUTATION_VALUES: dict[ApiKey, dict[str, object]] = {
    ApiKey.CREATE_TOPICS: {
        "topics": [
            {
                "name": "orders",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}],
                "configs": [{"name": "segment.ms", "value": "1"}],
            }
        ]
    },
    ApiKey.DELETE_TOPICS: {"topic_names": ("gone",), "topics": [{"name": "gone", "topic_id": None}]},
    ApiKey.CREATE_PARTITIONS: {
        "topics": [{"name": "orders", "count": 2, "assignments": [{"broker_ids": (1, 2)}]}],
    },
}
CREATED = TopicOutcome(None, TOPIC_ID, frozenset({0}), 1, {"segment.ms": "1"})
STATE = LeaderAndIsr(BrokerId(1), 5, (BrokerId(1),), 3, 10, LeaderRecoveryState.RECOVERED)


def answer(event: Event) -> object:
    match event:
        case AllocateProducerIds():
            return ProducerIdBlock(KafkaError.NONE, 3000, 1000)
        case ControlledShutdown():
            return ControlledShutdownReply(KafkaError.NONE, frozenset({TopicPartition("orders", 1)}))
        case ReplicaLeaderElection():
            return {TopicPartition("orders", 0): BrokerId(1), TopicPartition("orders", 1): KafkaError.INVALID_REQUEST}
        case ApiPartitionReassignment():
            return dict.fromkeys(event.targets, KafkaError.NONE)
        case ListPartitionReassignments():
            return {TopicPartition("orders", 0): ReplicaAssignment(replicas(1, 2), replicas(2), replicas(1))}
        case UpdateFeatures():
            return dict.fromkeys(event.updates, KafkaError.INVALID_REQUEST)
        case CreateTopics() | CreatePartitions():
            return MutationReply({"orders": CREATED})
        case DeleteTopics():
            return MutationReply({"gone": TopicOutcome()})
        case AlterScram():
            return {"alice": Refusal(KafkaError.RESOURCE_NOT_FOUND), "bob": None}
        case AlterPartitionReceived():
            return AlterPartitionReply(KafkaError.NONE, {TopicPartition("orders", 0): STATE}, {})
        case _:
            raise AssertionError(event)


def native_versions() -> Iterator[tuple[ApiKey, int]]:
    for api_key, versions in NATIVE.items():
        for version in range(versions.lowest, versions.highest + 1):
            yield ApiKey(api_key), version


def values_for(api_key: ApiKey, version: int) -> dict[str, object]:
    if api_key == ApiKey.METADATA and version == 0:
        return {"topics": ()}
    if api_key == ApiKey.ALTER_PARTITION:
        isr = {"new_isr": (1,), "new_isr_with_epochs": [{"broker_id": 1}]}
        row = {"partition_index": 0, "leader_epoch": 5, "partition_epoch": 9, **isr}
        return {"topics": [{"topic_name": "orders", "topic_id": TOPIC_UUID, "partitions": [row]}]}
    if api_key in MUTATION_VALUES:
        return MUTATION_VALUES[api_key]
    if api_key in FORWARDED:
        return ADMIN_VALUES
    if api_key == ApiKey.ENVELOPE:
        return {"request_data": b"", "request_principal": None, "client_host_address": b""}
    own = {"resource_type": 4, "resource_name": str(NODE_ID), "configs": (), "configuration_keys": None}
    return {"resources": [own]} if "CONFIGS" in api_key.name else {}


@pytest.mark.parametrize(("api_key", "version"), list(native_versions()))
async def test_a_native_answer_has_the_schema_of_the_requests_version(api_key: ApiKey, version: int) -> None:
    async with running(new_snapshot(), answer) as cluster:
        client = await cluster.connect()

        entity = await client.ask(api_key, version, **values_for(api_key, version))

        assert entity.__version__ == version
