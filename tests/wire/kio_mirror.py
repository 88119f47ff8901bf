"""Control requests built as kio entities, field by field from kio's own schema, to check the hand-made encoders."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from controllerd.core.model import Broker, SecurityProtocol, TopicPartition
from controllerd.core.requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from tests.wire.samples import topic_uuid
from wire.kio_codec import request_type
from wire.versions import ApiKey


def build(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """An entity of this class from plain values; fields that this version does not have are left out."""
    hints = get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    return kind(**{name: convert(hints[name], value) for name, value in values.items() if name in known})


def convert(hint: Any, value: Any) -> Any:
    """A plain value as the type of its field: mappings become nested entities."""
    entity = next((arg for arg in get_args(hint) if is_dataclass(arg)), None)
    return tuple(build(entity, item) for item in value) if isinstance(entity, type) else value


def by_topic(states: Iterable[tuple[str, dict[str, Any]]], ids: Mapping[str, str], name: str, inner: str) -> list[Any]:
    """Partition states grouped by topic in the order of first appearance."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for topic, state in states:
        grouped.setdefault(topic, []).append(state)
    return [{name: topic, "topic_id": topic_uuid(ids, topic), inner: rows} for topic, rows in grouped.items()]


def together(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The partition states sorted by topic, in the order of first appearance; their order has no meaning."""
    appearance = list(dict.fromkeys(state["topic_name"] for state in states))
    return sorted(states, key=lambda state: appearance.index(state["topic_name"]))


def common(tp: TopicPartition) -> dict[str, Any]:
    """The names of a partition in ungrouped and grouped versions."""
    return {"topic_name": tp.topic, "partition_index": tp.partition}


def leader_and_isr(request: LeaderAndIsrRequest, version: int) -> Any:
    """LeaderAndIsr as kio has it."""
    states = [
        common(tp)
        | {
            "controller_epoch": entry.state.controller_epoch,
            "leader": entry.state.leader,
            "leader_epoch": entry.state.leader_epoch,
            "isr": entry.state.isr,
            "partition_epoch": entry.state.partition_epoch,
            "replicas": entry.assignment.replicas,
            "adding_replicas": entry.assignment.adding,
            "removing_replicas": entry.assignment.removing,
            "is_new": entry.is_new,
            "leader_recovery_state": int(entry.state.recovery_state),
        }
        for tp, entry in request.partitions.items()
    ]
    values = {
        "controller_id": request.controller_id,
        "is_k_raft_controller": False,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "type_": 0,
        "ungrouped_partition_states": together(states),
        "topic_states": by_topic(named(states), request.topic_ids, "topic_name", "partition_states"),
        "live_leaders": [
            {"broker_id": broker, "host_name": endpoint.host, "port": endpoint.port}
            for broker, endpoint in request.live_leaders
        ],
    }
    return build(request_type(ApiKey.LEADER_AND_ISR, version), values)


def named(states: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The states as pairs of topic and state."""
    return [(state["topic_name"], state) for state in states]


def update_metadata(request: UpdateMetadataRequest, version: int) -> Any:
    """UpdateMetadata as kio has it."""
    states = [
        common(tp)
        | {
            "controller_epoch": entry.state.controller_epoch,
            "leader": entry.state.leader,
            "leader_epoch": entry.state.leader_epoch,
            "isr": entry.state.isr,
            "zk_version": entry.state.partition_epoch,
            "replicas": entry.replicas,
            "offline_replicas": entry.offline_replicas,
        }
        for tp, entry in request.body.partitions.items()
    ]
    values = {
        "controller_id": request.controller_id,
        "is_k_raft_controller": False,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "ungrouped_partition_states": together(states),
        "topic_states": by_topic(named(states), request.body.topic_ids, "topic_name", "partition_states"),
        "live_brokers": [live_broker(broker) for broker in request.body.live_brokers],
    }
    return build(request_type(ApiKey.UPDATE_METADATA, version), values)


def live_broker(broker: Broker) -> dict[str, Any]:
    """A live broker in all versions at once."""
    plain = [each for each in broker.endpoints if each.security_protocol is SecurityProtocol.PLAINTEXT]
    return {
        "id_": broker.id,
        "v0_host": plain[0].host if plain else "",
        "v0_port": plain[0].port if plain else -1,
        "endpoints": [
            {
                "port": endpoint.port,
                "host": endpoint.host,
                "listener": endpoint.listener,
                "security_protocol": int(endpoint.security_protocol),
            }
            for endpoint in broker.endpoints
        ],
        "rack": broker.rack,
    }


def stop_replica(request: StopReplicaRequest, version: int) -> Any:
    """StopReplica as kio has it; below version 3 all partitions have the same delete flag."""
    states = [
        common(tp) | {"leader_epoch": entry.leader_epoch, "delete_partition": entry.delete}
        for tp, entry in request.partitions.items()
    ]
    grouped = by_topic(named(states), {}, "name", "rows")
    values = {
        "controller_id": request.controller_id,
        "is_k_raft_controller": False,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "delete_partitions": any(entry.delete for entry in request.partitions.values()),
        "ungrouped_partitions": states,
        "topics": [
            {"name": topic["name"], "partition_indexes": tuple(row["partition_index"] for row in topic["rows"])}
            for topic in grouped
        ],
        "topic_states": by_topic(named(states), {}, "topic_name", "partition_states"),
    }
    return build(request_type(ApiKey.STOP_REPLICA, version), values)
