"""LeaderAndIsr by hand, versions 0 to 7: at a failover it is encoded for hundreds of thousands of replicas."""

import struct
from functools import cache
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.core.requests import ControlResponse, LeaderAndIsrRequest
from wire.errors import MalformedMessage
from wire.partition_errors import error_of, read_named_errors
from wire.primitives import FORMATS, INT32, STATE_START, Cursor, Format, IdLists, topic_id_bytes
from wire.versions import ApiKey, is_flexible

_HEADS: Final = {
    0: struct.Struct(">ii"),
    2: struct.Struct(">iiq"),
    5: struct.Struct(">iiqb"),
    7: struct.Struct(">i?iqb"),
}
UNKNOWN_TYPE: Final = 0
"""A ZooKeeper-mode controller does not say whether a request is full or incremental."""


def _form(version: int) -> Format:
    return FORMATS[is_flexible(ApiKey.LEADER_AND_ISR, version)]


@cache
def _tail(version: int, is_new: bool, recovery_state: int) -> bytes:
    """What follows the replica lists of a partition state."""
    fields = (bytes((is_new,)) if version >= 1 else b"") + (bytes((recovery_state,)) if version >= 6 else b"")
    return fields + _form(version).tags


def encode(request: LeaderAndIsrRequest, version: int) -> tuple[bytes, ...]:
    """The body of the request in this version."""
    topics = _grouped(request, version) if version >= 2 else _ungrouped(request, version)
    return (_head(request, version), topics, _live_leaders(request, version) + _form(version).tags)


def _head(request: LeaderAndIsrRequest, version: int) -> bytes:
    controller, epoch, broker_epoch = request.controller_id, request.controller_epoch, request.broker_epoch
    if version >= 7:
        return _HEADS[7].pack(controller, False, epoch, broker_epoch, UNKNOWN_TYPE)
    if version >= 5:
        return _HEADS[5].pack(controller, epoch, broker_epoch, UNKNOWN_TYPE)
    if version >= 2:
        return _HEADS[2].pack(controller, epoch, broker_epoch)
    return _HEADS[0].pack(controller, epoch)


def _states(request: LeaderAndIsrRequest, version: int) -> dict[str, list[bytes]]:
    """Every partition state by topic, in the order of the request. The hot loop, as for UpdateMetadata."""
    lists, start, epoch, with_reassignment = IdLists(_form(version)), STATE_START.pack, INT32.pack, version >= 3
    by_topic: dict[str, list[bytes]] = {}
    current, states = None, list[bytes]()
    for (topic, partition), (state, (replicas, adding, removing), is_new) in request.partitions.items():
        if topic is not current:
            current, states = topic, by_topic.setdefault(topic, [])
        leader, leader_epoch, isr, controller_epoch, partition_epoch, recovery_state = state
        states.append(
            b"%b%b%b%b%b%b"
            % (
                start(partition, controller_epoch, leader, leader_epoch),
                lists[isr],
                epoch(partition_epoch),
                lists[replicas],
                lists[adding] + lists[removing] if with_reassignment else b"",
                _tail(version, is_new, recovery_state),
            )
        )
    return by_topic


def _ungrouped(request: LeaderAndIsrRequest, version: int) -> bytes:
    form = _form(version)
    named = [form.string(topic) + state for topic, states in _states(request, version).items() for state in states]
    return form.count(len(named)) + b"".join(named)


def _grouped(request: LeaderAndIsrRequest, version: int) -> bytes:
    form = _form(version)
    by_topic = _states(request, version)
    parts = [form.count(len(by_topic))]
    for topic, states in by_topic.items():
        topic_id = topic_id_bytes(request.topic_ids.get(topic)) if version >= 5 else b""
        parts += (form.string(topic), topic_id, form.count(len(states)), *states, form.tags)
    return b"".join(parts)


def _live_leaders(request: LeaderAndIsrRequest, version: int) -> bytes:
    form = _form(version)
    leaders = [
        INT32.pack(broker) + form.string(endpoint.host) + INT32.pack(endpoint.port) + form.tags
        for broker, endpoint in request.live_leaders
    ]
    return form.count(len(leaders)) + b"".join(leaders)


def decode_response(request: LeaderAndIsrRequest, version: int, body: bytes) -> ControlResponse:
    """The broker's answer. From version 5 on it is keyed by topic id, so the request says which topic is meant.

    :raises MalformedMessage: the bytes do not follow the schema, or name a topic id that was not asked for.
    """
    cursor = Cursor(body, flexible=_form(version).flexible)
    error = error_of(cursor.int16())
    errors = _errors_by_id(cursor, request) if version >= 5 else read_named_errors(cursor)
    cursor.skip_tags()
    cursor.end()
    failed = {tp: code for tp, code in errors.items() if code is not KafkaError.NONE}
    return ControlResponse("LeaderAndIsr", error, failed)


def _errors_by_id(cursor: Cursor, request: LeaderAndIsrRequest) -> dict[TopicPartition, KafkaError]:
    names = {topic_id_bytes(request.topic_ids.get(tp.topic)): tp.topic for tp in request.partitions}
    errors: dict[TopicPartition, KafkaError] = {}
    for _ in range(cursor.count()):
        topic_id = cursor.take(16)
        if topic_id not in names:
            raise MalformedMessage(f"answer for topic id {topic_id.hex()}, which was not in the request")
        for _ in range(cursor.count()):
            partition, code = cursor.int32(), cursor.int16()
            cursor.skip_tags()
            errors[TopicPartition(names[topic_id], partition)] = error_of(code)
        cursor.skip_tags()
    return errors
