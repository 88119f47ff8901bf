"""StopReplica by hand, versions 0 to 4. Below version 3 one delete flag holds for a whole request."""

import struct
from collections.abc import Generator, Iterator
from itertools import groupby, islice
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.core.requests import ControlResponse, StopReplicaPartition, StopReplicaRequest
from controllerd.slicer import sliced
from wire.control_bodies import ROWS_PER_STEP, Blocks, ByTopic, error_of, read_named_errors
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
    return Blocks(_pieces(request, version)).complete()


async def encode_in_turns(request: StopReplicaRequest, version: int) -> tuple[bytes, ...]:
    """As ``encode``, with turns for the event loop in between."""
    return await Blocks(_pieces(request, version)).complete_in_turns()


def _pieces(request: StopReplicaRequest, version: int) -> Iterator[bytes]:
    yield _head(request, version)
    yield from _ungrouped(request) if version == 0 else _grouped(request, version)
    yield _form(version).tags


def _ungrouped(request: StopReplicaRequest) -> Iterator[bytes]:
    form = _form(0)
    yield form.count(len(request.partitions))
    yield from (form.string(topic) + INT32.pack(partition) for topic, partition in request.partitions)


def _grouped(request: StopReplicaRequest, version: int) -> Iterator[bytes]:
    form = _form(version)
    states = ByTopic(form, grouped=True)
    items = iter(request.partitions.items())
    while part := list(islice(items, ROWS_PER_STEP)):
        for topic, rows in groupby(part, key=_topic):
            states.add(topic, [_entry(tp.partition, partition, version) for tp, partition in rows])
        yield b""
    yield from states.array(form.string)


def _topic(item: tuple[TopicPartition, StopReplicaPartition]) -> str:
    return item[0].topic


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


def _entry(index: int, partition: StopReplicaPartition, version: int) -> bytes:
    if version < FLAG_PER_PARTITION:
        return INT32.pack(index)
    return _STATE.pack(index, partition.leader_epoch, partition.delete) + _form(version).tags


def decode_response(request: StopReplicaRequest, version: int, body: bytes) -> Generator[None, None, ControlResponse]:
    """The broker's answer, in steps: every partition that it names and that failed or was to be deleted.

    :raises MalformedMessage: the bytes do not follow the schema.
    """
    cursor = Cursor(body, flexible=_form(version).flexible)
    error = error_of(cursor.int16())
    errors = yield from read_named_errors(cursor)
    cursor.skip_tags()
    cursor.end()
    kept: dict[TopicPartition, KafkaError] = {}
    for part in sliced(list(errors.items()), ROWS_PER_STEP):
        kept.update((tp, code) for tp, code in part if code is not KafkaError.NONE or _deletes(request, tp))
        yield
    return ControlResponse("StopReplica", error, kept)


def _deletes(request: StopReplicaRequest, tp: TopicPartition) -> bool:
    asked = request.partitions.get(tp)
    return asked is not None and asked.delete
