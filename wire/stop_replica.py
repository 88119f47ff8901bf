"""StopReplica by hand, versions 0 to 4. Below version 3 one delete flag holds for a whole request."""

import struct
from typing import Final

from controllerd.core.requests import ControlResponse, StopReplicaPartition, StopReplicaRequest
from wire.partition_errors import error_of, read_named_errors
from wire.primitives import FORMATS, INT32, Cursor, Format
from wire.versions import ApiKey, is_flexible

FLAG_PER_PARTITION: Final = 3
_HEADS: Final = {
    0: struct.Struct(">ii?"),
    1: struct.Struct(">iiq?"),
    3: struct.Struct(">iiq"),
    4: struct.Struct(">i?iq"),
}
_STATE: Final = struct.Struct(">ii?")


def _form(version: int) -> Format:
    return FORMATS[is_flexible(ApiKey.STOP_REPLICA, version)]


def split(request: StopReplicaRequest, version: int) -> list[StopReplicaRequest]:
    """The requests that say the same in this version: below 3 one that deletes, then one that does not."""
    flags = {partition.delete for partition in request.partitions.values()}
    if version >= FLAG_PER_PARTITION or len(flags) < 2:
        return [request]
    return [only(request, delete=True), only(request, delete=False)]


def only(request: StopReplicaRequest, *, delete: bool) -> StopReplicaRequest:
    """The part of the request with this delete flag."""
    kept = {tp: partition for tp, partition in request.partitions.items() if partition.delete is delete}
    return StopReplicaRequest(request.controller_id, request.controller_epoch, request.broker_epoch, kept)


def encode(request: StopReplicaRequest, version: int) -> tuple[bytes, ...]:
    """The body of the request in this version; below 3 it must have been ``split``."""
    head = _head(request, version)
    if version == 0:
        return (head, _ungrouped(request))
    return (head, _grouped(request, version))


def _head(request: StopReplicaRequest, version: int) -> bytes:
    controller, epoch, broker_epoch = request.controller_id, request.controller_epoch, request.broker_epoch
    if version >= 4:
        return _HEADS[4].pack(controller, False, epoch, broker_epoch)
    if version >= FLAG_PER_PARTITION:
        return _HEADS[3].pack(controller, epoch, broker_epoch)
    delete = any(partition.delete for partition in request.partitions.values())
    if version >= 1:
        return _HEADS[1].pack(controller, epoch, broker_epoch, delete)
    return _HEADS[0].pack(controller, epoch, delete)


def _ungrouped(request: StopReplicaRequest) -> bytes:
    form = _form(0)
    entries = [form.string(tp.topic) + INT32.pack(tp.partition) for tp in request.partitions]
    return form.count(len(entries)) + b"".join(entries)


def _grouped(request: StopReplicaRequest, version: int) -> bytes:
    form = _form(version)
    by_topic: dict[str, list[bytes]] = {}
    for tp, partition in request.partitions.items():
        by_topic.setdefault(tp.topic, []).append(_entry(tp.partition, partition, version))
    parts = [form.count(len(by_topic))]
    for topic, entries in by_topic.items():
        parts += (form.string(topic), form.count(len(entries)), *entries, form.tags)
    return b"".join(parts) + form.tags


def _entry(index: int, partition: StopReplicaPartition, version: int) -> bytes:
    if version < FLAG_PER_PARTITION:
        return INT32.pack(index)
    return _STATE.pack(index, partition.leader_epoch, partition.delete) + _form(version).tags


def decode_response(version: int, body: bytes) -> ControlResponse:
    """The broker's answer, with every partition that it names, those without error included.

    :raises MalformedMessage: the bytes do not follow the schema.
    """
    cursor = Cursor(body, flexible=_form(version).flexible)
    error = error_of(cursor.int16())
    errors = read_named_errors(cursor)
    cursor.skip_tags()
    cursor.end()
    return ControlResponse("StopReplica", error, errors)
