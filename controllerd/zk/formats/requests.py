"""Znodes of requests to the controller: notifications of brokers, and requests of tools below ``/admin``."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.zk import paths
from controllerd.zk.formats.fields import MAX_INT32, BrokerInt, VersionInt, decode_format, encode_json

LOG_DIR_FAILURE: Final = 1
DELETE_MARKER: Final = b""
"""Data of ``/admin/delete_topics/<topic>``: empty, because the name is the request."""

_PartitionInt = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]


class _Partition(msgspec.Struct):
    topic: str
    partition: _PartitionInt


class _Partitions(msgspec.Struct):
    partitions: list[_Partition]
    version: VersionInt = 1


class _LogDirEvent(msgspec.Struct):
    broker: BrokerInt
    event: int
    version: VersionInt = 1


class _Reassignment(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    partition: int
    replicas: tuple[int, ...]


class _Reassignments(msgspec.Struct, forbid_unknown_fields=True):
    partitions: list[_Reassignment]
    version: VersionInt = 1


_PARTITIONS: Final = msgspec.json.Decoder(_Partitions)
_LOG_DIR_EVENT: Final = msgspec.json.Decoder(_LogDirEvent)
_REASSIGNMENTS: Final = msgspec.json.Decoder(_Reassignments)


def _decode_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    found = decode_format(path, data, _PARTITIONS, (1,))
    return tuple(TopicPartition(entry.topic, entry.partition) for entry in found.partitions)


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    return encode_json({"version": 1, "partitions": [{"topic": t, "partition": p} for t, p in partitions]})


def decode_isr_change(child: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Decode a child of ``/isr_change_notification``: the partitions whose ISR a broker changed by itself.

    A ``NewerZnode`` is left unchanged; any other ``BadZnode`` is of no use to any client and may be deleted.
    """
    return _decode_partitions(paths.isr_change(child), data)


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode a notification of ISR changes."""
    return _encode_partitions(partitions)


def decode_log_dir_event(child: str, data: bytes | None) -> BrokerId:
    """Decode a child of ``/log_dir_event_notification``: the broker that lost a log directory (KIP-112)."""
    path = paths.log_dir_event(child)
    found = decode_format(path, data, _LOG_DIR_EVENT, (1,))
    return BrokerId(found.broker)


def encode_log_dir_event(broker: BrokerId) -> bytes:
    """Encode a notification of a failed log directory."""
    return encode_json({"version": 1, "broker": broker, "event": LOG_DIR_FAILURE})


def decode_preferred_election(data: bytes | None) -> tuple[TopicPartition, ...]:
    """Decode ``/admin/preferred_replica_election``, each partition once, in the order of the file."""
    return tuple(dict.fromkeys(_decode_partitions(paths.PREFERRED_REPLICA_ELECTION, data)))


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode ``/admin/preferred_replica_election``."""
    return _encode_partitions(partitions)


def decode_reassignments(data: bytes | None) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Decode ``/admin/reassign_partitions`` in the order of the file; of two entries for a partition the last counts.

    Any unknown field is an error, as it is for Kafka. Broker and partition numbers are not checked: a wrong one makes
    its own entry invalid, not the file.
    """
    found = decode_format(paths.REASSIGN_PARTITIONS, data, _REASSIGNMENTS, (1,))
    return {
        TopicPartition(move.topic, move.partition): tuple(map(BrokerId, move.replicas)) for move in found.partitions
    }


def encode_reassignments(reassignments: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    """Encode ``/admin/reassign_partitions``, in the order of the mapping."""
    moves = [{"topic": tp.topic, "partition": tp.partition, "replicas": r} for tp, r in reassignments.items()]
    return encode_json({"version": 1, "partitions": moves})
