"""The names of configuration keys in Kafka's ``server.properties``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

KAFKA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zookeeper.connect": "zookeeper.connect",
        "zookeeper.session_timeout_ms": "zookeeper.session.timeout.ms",
        "zookeeper.connection_timeout_ms": "zookeeper.connection.timeout.ms",
        "kafka.inter_broker_listener_name": "inter.broker.listener.name",
        "kafka.control_plane_listener_name": "control.plane.listener.name",
        "kafka.inter_broker_protocol_version": "inter.broker.protocol.version",
        "kafka.unclean_leader_election_enable": "unclean.leader.election.enable",
        "kafka.delete_topic_enable": "delete.topic.enable",
        "kafka.auto_leader_rebalance_enable": "auto.leader.rebalance.enable",
        "kafka.leader_imbalance_per_broker_percentage": "leader.imbalance.per.broker.percentage",
        "kafka.leader_imbalance_check_interval_seconds": "leader.imbalance.check.interval.seconds",
        "kafka.delegation_token_expiry_check_interval_ms": "delegation.token.expiry.check.interval.ms",
        "kafka.num_partitions": "num.partitions",
        "kafka.default_replication_factor": "default.replication.factor",
        "kafka.remote_log_storage_system_enable": "remote.log.storage.system.enable",
        "kafka.controller_quota_window_num": "controller.quota.window.num",
        "kafka.controller_quota_window_size_seconds": "controller.quota.window.size.seconds",
        "kafka.request_timeout_ms": "request.timeout.ms",
        "kafka.controller_socket_timeout_ms": "controller.socket.timeout.ms",
    }
)
"""Kafka's name by controllerd's key, for every key that has one.

Listeners and advertised listeners are missing, because those of a broker are its own.
"""

KEYS: Final[Mapping[str, str]] = MappingProxyType({kafka: key for key, kafka in KAFKA_NAMES.items()})
"""Controllerd's key by Kafka's name."""


def named(key: str, origin: str | None = None) -> str:
    """The name of a key in problems: with Kafka's name if that differs, and with the origin of the value."""
    kafka = KAFKA_NAMES.get(key, key)
    notes = [] if origin is None else [origin]
    if kafka != key:
        notes.append(f"Kafka's {kafka}")
    return f"{key} ({', '.join(notes)})" if notes else key
