"""LeaderAndIsr by hand, versions 0 to 7: at a failover it is encoded for hundreds of thousands of replicas."""

import struct
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderRecoveryState, ReplicaAssignment, TopicPartition
from controllerd.core.requests import ControlResponse, LeaderAndIsrRequest
from wire.control_bodies import ROWS_PER_STEP, Blocks, ByTopic, Templates, error_of, read_named_errors
from wire.errors import MalformedMessage
from wire.primitives import FORMATS, INT32, ZERO_ID, Cursor, Format, IdLists, topic_id_bytes
from wire.versions import ApiKey, is_flexible

_HEADS: Final = {
    0: struct.Struct(">ii"),
    2: struct.Struct(">iiq"),
    5: struct.Struct(">iiqb"),
    7: struct.Struct(">i?iqb"),
}
_FIRST_GROUPED: Final = 2
_FIRST_WITH_REASSIGNMENT: Final = 3
_FIRST_WITH_TOPIC_IDS: Final = 5
_ROW_SIZE: Final = 7
"""A row of an answer: partition, error code, and the empty tags of a flexible version."""
_ZEROS_IN_ROW: Final = (4, 5, 6)
UNKNOWN_TYPE: Final = 0
"""The type of requests: a controller in ZooKeeper mode does not state whether a request is full or incremental."""


def _form(version: int) -> Format:
    return FORMATS[is_flexible(ApiKey.LEADER_AND_ISR, version)]


def _tail(version: int, is_new: bool, recovery_state: int) -> bytes:
    """Return the bytes after the replica lists of a partition state."""
    fields = (bytes((is_new,)) if version >= 1 else b"") + (bytes((recovery_state,)) if version >= 6 else b"")
    return fields + _form(version).tags


def encode(request: LeaderAndIsrRequest, version: int) -> tuple[bytes, ...]:
    """The body of the request in this version."""
    return Blocks(_pieces(request, version)).complete()


async def encode_in_turns(request: LeaderAndIsrRequest, version: int) -> tuple[bytes, ...]:
    """As ``encode``, with turns for the event loop in between."""
    return await Blocks(_pieces(request, version)).complete_in_turns()


def _pieces(request: LeaderAndIsrRequest, version: int) -> Iterator[bytes]:
    form, with_ids = _form(version), version >= _FIRST_WITH_TOPIC_IDS
    yield _head(request, version)
    states = ByTopic(form, grouped=version >= _FIRST_GROUPED)
    yield from _pack(request, version, states)

    def head(topic: str) -> bytes:
        return form.string(topic) + (topic_id_bytes(request.topic_ids.get(topic)) if with_ids else b"")

    yield from states.array(head)
    yield _live_leaders(request, version) + form.tags


def _head(request: LeaderAndIsrRequest, version: int) -> bytes:
    controller, epoch, broker_epoch = request.controller_id, request.controller_epoch, request.broker_epoch
    if version >= 7:
        return _HEADS[7].pack(controller, False, epoch, broker_epoch, UNKNOWN_TYPE)
    if version >= 5:
        return _HEADS[5].pack(controller, epoch, broker_epoch, UNKNOWN_TYPE)
    if version >= 2:
        return _HEADS[2].pack(controller, epoch, broker_epoch)
    return _HEADS[0].pack(controller, epoch)


def _pack(request: LeaderAndIsrRequest, version: int, by_topic: ByTopic) -> Iterator[bytes]:
    """Every partition state, in the order of the request; an empty piece after each step, as for UpdateMetadata."""
    recovered, recovering = (_templates(version, state) for state in LeaderRecoveryState)
    items = iter(request.partitions.items())
    while part := list(islice(items, ROWS_PER_STEP)):
        current, states = part[0][0].topic, list[bytes]()
        for (topic, partition), (state, assignment, is_new) in part:
            if topic is not current:
                by_topic.add(current, states)
                current, states = topic, []
            leader, leader_epoch, isr, controller_epoch, partition_epoch, recovery_state = state
            templates = recovering if recovery_state else recovered
            pack, isr_bytes, rest = templates[isr, assignment, is_new]
            states.append(pack(partition, controller_epoch, leader, leader_epoch, isr_bytes, partition_epoch, rest))
        by_topic.add(current, states)
        yield b""


def _templates(
    version: int, recovery_state: LeaderRecoveryState
) -> Templates[tuple[tuple[BrokerId, ...], ReplicaAssignment, bool]]:
    """By ISR, assignment and whether the replica is new."""
    lists, with_reassignment = IdLists(_form(version)), version >= _FIRST_WITH_REASSIGNMENT

    def encode(key: tuple[tuple[BrokerId, ...], ReplicaAssignment, bool]) -> tuple[bytes, bytes]:
        isr, (replicas, adding, removing), is_new = key
        moving = lists[adding] + lists[removing] if with_reassignment else b""
        return lists[isr], lists[replicas] + moving + _tail(version, is_new, recovery_state)

    return Templates(encode)


def _live_leaders(request: LeaderAndIsrRequest, version: int) -> bytes:
    form = _form(version)
    leaders = [
        INT32.pack(broker) + form.string(endpoint.host) + INT32.pack(endpoint.port) + form.tags
        for broker, endpoint in request.live_leaders
    ]
    return form.count(len(leaders)) + b"".join(leaders)


def decode_response(request: LeaderAndIsrRequest, version: int, body: bytes) -> Generator[None, None, ControlResponse]:
    """Decode the broker's response, in steps. From version 5 on it has topic ids, whose names are in the request.

    :raises MalformedMessage: the bytes do not follow the schema, or contain a topic id that is not in the request.
    """
    cursor = Cursor(body, flexible=_form(version).flexible)
    error = error_of(cursor.int16())
    has_ids = version >= _FIRST_WITH_TOPIC_IDS
    errors = yield from _errors_by_id(cursor, request) if has_ids else read_named_errors(cursor)
    cursor.skip_tags()
    cursor.end()
    failed = {tp: code for tp, code in errors.items() if code is not KafkaError.NONE}
    return ControlResponse("LeaderAndIsr", error, failed)


def _errors_by_id(
    cursor: Cursor, request: LeaderAndIsrRequest
) -> Generator[None, None, dict[TopicPartition, KafkaError]]:
    names = {topic_id_bytes(topic_id): topic for topic, topic_id in request.topic_ids.items()}
    errors: dict[TopicPartition, KafkaError] = {}
    for _ in range(cursor.count()):
        topic_id = cursor.take(16)
        topic = names.get(topic_id) or (_without_id(request) if topic_id == ZERO_ID else None)
        if topic is None:
            raise MalformedMessage(f"answer for topic id {topic_id.hex()}, which was not in the request")
        errors.update(_errors_of(cursor, topic))
        cursor.skip_tags()
        yield
    return errors


def _without_id(request: LeaderAndIsrRequest) -> str | None:
    """Return a topic of the request without an id, if any: versions with ids are avoided for such a request."""
    return next((tp.topic for tp in request.partitions if tp.topic not in request.topic_ids), None)


def _errors_of(cursor: Cursor, topic: str) -> dict[TopicPartition, KafkaError]:
    """Return the errors of one topic; if there are none, which is usual, without a loop over its partitions."""
    count = cursor.count()
    rows = cursor.peek(count * _ROW_SIZE)
    if all(rows[place::_ROW_SIZE].count(0) == count for place in _ZEROS_IN_ROW):
        cursor.take(len(rows))
        return {}
    errors = {}
    for _ in range(count):
        partition, code = cursor.int32(), cursor.int16()
        cursor.skip_tags()
        errors[TopicPartition(topic, partition)] = error_of(code)
    return errors
