"""The decoder of the simulated brokers agrees with kio, and the product can read the brokers' responses."""

from collections.abc import Sequence
from typing import Any

import pytest

from broker import decode
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controllerd.core.releases import release_of
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from tests.sim import broker_frames as frames
from wire import control_requests
from wire.connection import decode_api_versions
from wire.framing import RequestHeader, decode_response_header, encode_request_header
from wire.kio_codec import decode_request

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 200), TopicPartition("b" * 130, 0)
IDS = {"a": frames.id_text(bytes(range(16))), "b" * 130: frames.id_text(bytes(range(16, 32)))}


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


RECOVERING = LeaderAndIsr(BrokerId(2), 8, brokers(2), 9, 11, LeaderRecoveryState.RECOVERING)
STATES = {
    A0: LeaderAndIsr(BrokerId(1), 7, brokers(1, 3), 9, 10),
    A1: RECOVERING,
    B0: LeaderAndIsr(BrokerId(-1), 0, brokers(3), 1, 0),
}
ASSIGNMENTS = {
    A0: ReplicaAssignment(brokers(1, 2, 3), brokers(3), brokers(2)),
    A1: ReplicaAssignment(brokers(2, 1)),
    B0: ReplicaAssignment(tuple(map(BrokerId, range(40)))),
}
LIVE = (
    Broker(BrokerId(1), 5, (Endpoint("PLAINTEXT", "one", 9092), Endpoint("X", "other", 1)), "rack"),
    Broker(BrokerId(2_000_000_000), 6, (Endpoint("PLAINTEXT", "two", 9093),)),
)

LEADER_AND_ISR = LeaderAndIsrRequest(
    2_000_000_000,
    9,
    77,
    {tp: LeaderAndIsrPartition(STATES[tp], ASSIGNMENTS[tp], tp == A1) for tp in STATES},
    IDS,
    ((BrokerId(1), Endpoint("PLAINTEXT", "one", 9092)),),
)
UPDATE_METADATA = UpdateMetadataRequest(
    2_000_000_000,
    9,
    77,
    UpdateMetadataBody(
        {tp: UpdateMetadataPartition(STATES[tp], ASSIGNMENTS[tp].replicas, brokers(2)) for tp in STATES}, IDS, LIVE
    ),
)
STOP_REPLICA = StopReplicaRequest(
    2_000_000_000, 9, 77, {A0: StopReplicaPartition(-2, delete=True), B0: StopReplicaPartition(4, delete=False)}
)
SPOKEN: Sequence[tuple[ControlRequest, int]] = [
    *((LEADER_AND_ISR, version) for version in range(4, 8)),
    *((UPDATE_METADATA, version) for version in range(6, 9)),
    *((STOP_REPLICA, version) for version in range(3, 5)),
]


def frame_of(request: ControlRequest, version: int) -> bytes:
    head = encode_request_header(RequestHeader(control_requests.api_key(request), version, 4711, "client"))
    return head + b"".join(control_requests.encode(request, version))


def name(case: Any) -> str:
    return str(case) if isinstance(case, int) else type(case).__name__


@pytest.mark.parametrize(("request_", "version"), SPOKEN, ids=name)
def test_it_reads_what_kio_reads(request_: ControlRequest, version: int) -> None:
    frame = frame_of(request_, version)
    ours = frames.decode(frame)
    header, entity = decode_request(frame)
    kios: Any = {
        LeaderAndIsrRequest: decode.leader_and_isr,
        UpdateMetadataRequest: decode.update_metadata,
        StopReplicaRequest: decode.stop_replica,
    }[type(request_)](entity)
    assert (ours.api, ours.version, ours.correlation_id) == (header.api_key, header.version, header.correlation_id)
    assert (ours.controller_id, ours.controller_epoch, ours.broker_epoch, ours.is_kraft) == (
        kios.controller_id,
        kios.controller_epoch,
        kios.broker_epoch,
        False,
    )
    assert [_plain(row, ours.api) for row in ours.rows] == [
        _kios_row(tp, row) for tp, row in (kios.body if ours.api == 6 else kios).partitions.items()
    ]
    if ours.api == frames.LEADER_AND_ISR:
        assert ours.topic_ids == kios.topic_ids
        assert ours.live_leaders == tuple((id_, point.host, point.port) for id_, point in kios.live_leaders)
    if ours.api == frames.UPDATE_METADATA:
        assert ours.topic_ids == kios.body.topic_ids
        assert ours.live_brokers == tuple(
            (each.id, tuple((e.listener, e.host, e.port, int(e.security_protocol)) for e in each.endpoints), each.rack)
            for each in kios.body.live_brokers
        )


def _plain(row: frames.PartitionRow, api: int) -> tuple[object, ...]:
    if api == frames.STOP_REPLICA:
        return (row.topic, row.partition, row.leader_epoch, row.delete)
    state = (row.leader, row.leader_epoch, row.isr, row.controller_epoch, row.partition_epoch)
    if api == frames.UPDATE_METADATA:
        return (row.topic, row.partition, *state, row.replicas, row.offline)
    assignment = (row.replicas, row.adding, row.removing)
    return (row.topic, row.partition, *state, row.recovery_state, *assignment, row.is_new)


def _kios_row(tp: TopicPartition, row: Any) -> tuple[object, ...]:
    match row:
        case LeaderAndIsrPartition():
            return (*tp, *row.state, *row.assignment, row.is_new)
        case UpdateMetadataPartition():
            return (*tp, *row.state[:5], row.replicas, row.offline_replicas)
        case _:
            return (*tp, row.leader_epoch, row.delete)


@pytest.mark.parametrize(("request_", "version"), SPOKEN, ids=name)
def test_a_frame_with_a_piece_missing_is_malformed(request_: ControlRequest, version: int) -> None:
    frame = frame_of(request_, version)
    for end in range(len(frame)):
        with pytest.raises(frames.Malformed):
            frames.decode(frame[:end])


def test_a_frame_with_a_byte_too_many_is_malformed() -> None:
    with pytest.raises(frames.Malformed):
        frames.decode(frame_of(LEADER_AND_ISR, 7) + b"\0")


def test_a_version_that_was_not_negotiated_is_malformed() -> None:
    with pytest.raises(frames.Malformed):
        frames.decode(frame_of(LEADER_AND_ISR, 3))


@pytest.mark.parametrize(("request_", "version"), SPOKEN, ids=name)
def test_the_product_reads_its_answers(request_: ControlRequest, version: int) -> None:
    read = frames.decode(frame_of(request_, version))
    named = [] if read.api == frames.UPDATE_METADATA else [(A0, 56), (B0, 11)]
    content = frames.answer(read, KafkaError.NONE, named)[4:]
    correlation_id, offset = decode_response_header(content, read.api, version)
    response = control_requests.decode_response(request_, version, content[offset:])
    assert correlation_id == 4711
    assert response.error is KafkaError.NONE
    assert dict(response.partition_errors) == {tp: KafkaError(code) for tp, code in named}


@pytest.mark.parametrize("version", [0, 3])
def test_the_product_reads_the_version_ranges(version: int) -> None:
    content = frames.api_versions_answer(3, version, frames.SPOKEN)[4:]
    assert decode_api_versions(content[4:], flexible=version == 3) == frames.SPOKEN


@pytest.mark.parametrize("release", frames.RELEASES)
def test_the_product_detects_the_release_of_a_broker_by_its_api_versions(release: tuple[int, int]) -> None:
    assert release_of(frames.spoken_on(release)) == release
