"""Encode control requests and decode their responses, by the hand-written codecs of the three APIs."""

from collections.abc import Generator, Sequence
from operator import itemgetter
from typing import assert_never

from controllerd.core.requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controllerd.slicer import Slicer
from wire import leader_and_isr, stop_replica, update_metadata
from wire.versions import ApiKey


def api_key(request: ControlRequest) -> ApiKey:
    """Return the API of a control request."""
    match request:
        case LeaderAndIsrRequest():
            return ApiKey.LEADER_AND_ISR
        case UpdateMetadataRequest():
            return ApiKey.UPDATE_METADATA
        case StopReplicaRequest():
            return ApiKey.STOP_REPLICA
        case _:
            assert_never(request)


def has_topic_ids(request: ControlRequest) -> bool:
    """Return whether versions with topic ids may be used.

    For LeaderAndIsr every topic must have its id, because answers for several topics without ids
    would be indistinguishable; a lower version does no harm, since it carries no ids. For
    UpdateMetadata one topic with an id is enough; a lower version would make brokers forget the id.
    """
    match request:
        case LeaderAndIsrRequest():
            return set(map(itemgetter(0), request.partitions)) <= request.topic_ids.keys()
        case UpdateMetadataRequest():
            return update_metadata.has_topic_ids(request.body)
        case StopReplicaRequest():
            return True
        case _:
            assert_never(request)


def split(request: ControlRequest, version: int) -> Sequence[ControlRequest]:
    """Return the equivalent requests of this version, in the order of sending; nearly always the request itself."""
    return stop_replica.split(request, version) if isinstance(request, StopReplicaRequest) else (request,)


def encode(request: ControlRequest, version: int) -> tuple[bytes, ...]:
    """Encode the body in this version, in blocks; blocks that brokers share are never copied."""
    match request:
        case LeaderAndIsrRequest():
            return leader_and_isr.encode(request, version)
        case UpdateMetadataRequest():
            return update_metadata.encode(request, version)
        case StopReplicaRequest():
            return stop_replica.encode(request, version)
        case _:
            assert_never(request)


async def encode_in_turns(request: ControlRequest, version: int) -> tuple[bytes, ...]:
    """Encode as ``encode``, but yield to the event loop in between for a body of very many partitions."""
    match request:
        case LeaderAndIsrRequest():
            return await leader_and_isr.encode_in_turns(request, version)
        case UpdateMetadataRequest():
            return await update_metadata.encode_in_turns(request, version)
        case StopReplicaRequest():
            return await stop_replica.encode_in_turns(request, version)
        case _:
            assert_never(request)


def decode_response(request: ControlRequest, version: int, body: bytes) -> ControlResponse:
    """Decode the response to a request in this version. :raises MalformedMessage: the bytes violate the schema."""
    steps = _decoding(request, version, body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            response: ControlResponse = end.value
            return response


async def decode_in_turns(request: ControlRequest, version: int, body: bytes) -> ControlResponse:
    """Decode as ``decode_response``, but yield to the event loop for a response about very many partitions."""
    steps, slicer = _decoding(request, version, body), Slicer()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            response: ControlResponse = end.value
            return response
        await slicer.yield_to_loop()


def _decoding(request: ControlRequest, version: int, body: bytes) -> Generator[None, None, ControlResponse]:
    match request:
        case LeaderAndIsrRequest():
            return (yield from leader_and_isr.decode_response(request, version, body))
        case UpdateMetadataRequest():
            return update_metadata.decode_response(version, body)
        case StopReplicaRequest():
            return (yield from stop_replica.decode_response(request, version, body))
        case _:
            assert_never(request)
