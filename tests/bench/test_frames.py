"""The harness reads control requests by offsets; kio, which wrote them here, is the second opinion."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from bench.frames import FrameReader, SentRequest, State, UnknownFrame
from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.core.requests import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataRequest,
)
from tests.wire import kio_mirror, samples
from wire.framing import RequestHeader, encode_request_header
from wire.kio_codec import encode_entity
from wire.versions import ApiKey


def frame(api: ApiKey, version: int, entity: Any) -> bytes:
    """A request on the wire without its size."""
    return encode_request_header(RequestHeader(api, version, 7, "controller")) + encode_entity(entity)


def wire_form(state: LeaderAndIsr) -> State:
    """The state as a control request encodes it."""
    isr = b"".join(int(broker).to_bytes(4, "big", signed=True) for broker in state.isr)
    return State(state.leader, state.leader_epoch, isr, state.partition_epoch)


def flat(sent: SentRequest) -> dict[tuple[str, int], State | None]:
    """The entries by topic and partition."""
    return {(topic, p): state for topic, entries in sent.entries.items() for p, state in entries.items()}


def keys(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    """As ``flat`` has them."""
    return [(tp.topic, tp.partition) for tp in partitions]


@settings(deadline=None, max_examples=50)
@given(samples.leader_and_isr_requests)
def test_leader_and_isr_is_read_as_kio_wrote_it(request: LeaderAndIsrRequest) -> None:
    sent = FrameReader().read(frame(ApiKey.LEADER_AND_ISR, 7, kio_mirror.leader_and_isr(request, 7)))

    expected = {(tp.topic, tp.partition): wire_form(entry.state) for tp, entry in request.partitions.items()}
    assert flat(sent) == expected
    assert (sent.api, sent.controller_epoch, sent.broker_epoch, sent.named) == (
        "LEADER_AND_ISR",
        request.controller_epoch,
        request.broker_epoch,
        len(expected),
    )


@settings(deadline=None, max_examples=50)
@given(samples.update_metadata_requests)
def test_update_metadata_is_read_as_kio_wrote_it(request: UpdateMetadataRequest) -> None:
    sent = FrameReader().read(frame(ApiKey.UPDATE_METADATA, 8, kio_mirror.update_metadata(request, 8)))

    assert flat(sent) == {
        (tp.topic, tp.partition): wire_form(entry.state) for tp, entry in request.body.partitions.items()
    }
    assert (sent.controller_epoch, sent.broker_epoch) == (request.controller_epoch, request.broker_epoch)


@settings(deadline=None, max_examples=50)
@given(samples.stop_replica_requests)
def test_stop_replica_is_read_as_kio_wrote_it(request: StopReplicaRequest) -> None:
    sent = FrameReader().read(frame(ApiKey.STOP_REPLICA, 4, kio_mirror.stop_replica(request, 4)))

    assert flat(sent) == dict.fromkeys(keys(list(request.partitions)))


def test_a_body_that_all_brokers_get_is_taken_apart_once() -> None:
    request = UpdateMetadataRequest(1, 2, 3, UpdateMetadataBody({}, {}, ()))
    reader, content = FrameReader(), frame(ApiKey.UPDATE_METADATA, 8, kio_mirror.update_metadata(request, 8))

    assert reader.read(content).entries is reader.read(content).entries


@pytest.mark.parametrize(("api", "version"), [(ApiKey.UPDATE_METADATA, 7), (ApiKey.METADATA, 12)])
def test_a_request_of_another_version_is_refused(api: ApiKey, version: int) -> None:
    with pytest.raises(UnknownFrame):
        FrameReader().read(encode_request_header(RequestHeader(api, version, 7, "controller")) + bytes(40))
