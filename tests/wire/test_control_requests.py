"""The hand-made templates encode the same bytes as kio, and decode what kio writes."""

import gc
import uuid
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controllerd.slicer import Slicer
from tests.turns import Turns
from tests.wire import kio_mirror, samples
from wire import control_requests, update_metadata
from wire import stop_replica as stop_replica_wire
from wire.errors import MalformedMessage
from wire.kio_codec import encode_entity, response_type
from wire.primitives import Cursor, topic_id_text
from wire.versions import ApiKey

STATE = LeaderAndIsr(BrokerId(1), 3, (BrokerId(1), BrokerId(2)), 5, 7)
ASSIGNMENT = ReplicaAssignment((BrokerId(1), BrokerId(2)))
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
T_ID, U_ID = uuid.UUID(int=7), uuid.UUID(int=9)
IDS = {"t": topic_id_text(T_ID.bytes) or "", "u": topic_id_text(U_ID.bytes) or ""}


def leader_and_isr() -> LeaderAndIsrRequest:
    partitions = {tp: LeaderAndIsrPartition(STATE, ASSIGNMENT, is_new=False) for tp in (T0, T1, U0)}
    return LeaderAndIsrRequest(9, 5, 11, partitions, IDS, ())


def update_body() -> UpdateMetadataBody:
    return UpdateMetadataBody({T0: UpdateMetadataPartition(STATE, (BrokerId(1), BrokerId(2)), ())}, IDS, ())


def stop_replica() -> StopReplicaRequest:
    return StopReplicaRequest(9, 5, 11, {T0: StopReplicaPartition(3, delete=True), U0: StopReplicaPartition(-1, False)})


@pytest.mark.parametrize("version", range(8))
@settings(deadline=None, max_examples=40)
@given(request_=samples.leader_and_isr_requests)
def test_leader_and_isr_is_encoded_as_by_kio(version: int, request_: LeaderAndIsrRequest) -> None:
    assert b"".join(control_requests.encode(request_, version)) == encode_entity(
        kio_mirror.leader_and_isr(request_, version)
    )


@pytest.mark.parametrize("version", range(9))
@settings(deadline=None, max_examples=40)
@given(request_=samples.update_metadata_requests)
def test_update_metadata_is_encoded_as_by_kio(version: int, request_: UpdateMetadataRequest) -> None:
    assert b"".join(control_requests.encode(request_, version)) == encode_entity(
        kio_mirror.update_metadata(request_, version)
    )


@pytest.mark.parametrize("version", range(5))
@settings(deadline=None, max_examples=40)
@given(request_=samples.stop_replica_requests)
def test_stop_replica_is_encoded_as_by_kio(version: int, request_: StopReplicaRequest) -> None:
    for part in control_requests.split(request_, version):
        assert isinstance(part, StopReplicaRequest)
        assert b"".join(control_requests.encode(part, version)) == encode_entity(kio_mirror.stop_replica(part, version))


@settings(deadline=None)
@given(request_=samples.stop_replica_requests, version=st.integers(0, 2))
def test_an_old_stop_replica_is_split_so_that_no_flag_is_lost(request_: StopReplicaRequest, version: int) -> None:
    parts = [part for part in control_requests.split(request_, version) if isinstance(part, StopReplicaRequest)]

    assert {tp: p for part in parts for tp, p in part.partitions.items()} == request_.partitions
    assert all(len({p.delete for p in part.partitions.values()}) <= 1 for part in parts)


def test_one_encoding_serves_all_brokers() -> None:
    body = update_body()
    first = control_requests.encode(UpdateMetadataRequest(9, 5, 1, body), 8)
    second = control_requests.encode(UpdateMetadataRequest(9, 5, 2, body), 8)

    assert first[1] is second[1]
    assert first[0] != second[0]


def test_the_encoding_is_freed_with_its_body_even_if_it_is_incomplete() -> None:
    body = update_body()
    update_metadata.shared(body, 8).step()
    kept = weakref.ref(body)
    del body
    gc.collect()

    assert kept() is None


def test_a_request_without_topic_ids_is_recognised() -> None:
    body = UpdateMetadataBody(update_body().partitions, {}, (Broker(BrokerId(1), 1, ()),))

    assert control_requests.has_topic_ids(leader_and_isr())
    assert not control_requests.has_topic_ids(UpdateMetadataRequest(9, 5, 1, body))


def test_one_topic_id_is_enough_to_need_the_versions_with_topic_ids() -> None:
    whole = update_body()
    topics = sorted({tp.topic for tp in whole.partitions})
    mixed = UpdateMetadataBody(whole.partitions, {topics[0]: whole.topic_ids[topics[0]]}, whole.live_brokers)
    empty = UpdateMetadataBody({}, {}, whole.live_brokers)

    assert control_requests.has_topic_ids(UpdateMetadataRequest(9, 5, 1, mixed))
    assert control_requests.has_topic_ids(UpdateMetadataRequest(9, 5, 1, empty))


def named_error(tp: TopicPartition, code: int) -> dict[str, Any]:
    return {"topic_name": tp.topic, "partition_index": tp.partition, "error_code": ErrorCode(code)}


def answer(api: ApiKey, version: int, code: int, errors: list[tuple[TopicPartition, int]]) -> bytes:
    """An answer that kio writes, with these errors."""
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for tp, error in errors:
        by_topic.setdefault(tp.topic, []).append(named_error(tp, error))
    ids = {"t": T_ID, "u": U_ID, "x": uuid.UUID(int=99)}
    values = {
        "error_code": ErrorCode(code),
        "partition_errors": [named_error(tp, error) for tp, error in errors],
        "topics": [{"topic_id": ids.get(topic, U_ID), "partition_errors": rows} for topic, rows in by_topic.items()],
    }
    return encode_entity(kio_mirror.build(response_type(api, version), values))


@pytest.mark.parametrize("version", range(8))
def test_an_answer_to_leader_and_isr_names_the_partitions_that_failed(version: int) -> None:
    body = answer(ApiKey.LEADER_AND_ISR, version, 0, [(T0, 0), (T1, 56), (U0, 11)])

    response = control_requests.decode_response(leader_and_isr(), version, body)

    assert response.error is KafkaError.NONE
    assert response.partition_errors == {T1: KafkaError.KAFKA_STORAGE_ERROR, U0: KafkaError.STALE_CONTROLLER_EPOCH}


def test_errors_are_found_among_many_partitions_without_any() -> None:
    many = {TopicPartition("t", p): LeaderAndIsrPartition(STATE, ASSIGNMENT, is_new=False) for p in range(300)}
    request = LeaderAndIsrRequest(
        9, 5, 11, many | {U0: LeaderAndIsrPartition(STATE, ASSIGNMENT, is_new=False)}, IDS, ()
    )
    rows = [(tp, 56 if tp.partition == 256 else 0) for tp in many]

    response = control_requests.decode_response(request, 7, answer(ApiKey.LEADER_AND_ISR, 7, 0, [*rows, (U0, 0)]))

    assert response.partition_errors == {TopicPartition("t", 256): KafkaError.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize("version", range(5))
def test_errors_of_many_replicas_are_read_whatever_the_order_of_their_topics(version: int) -> None:
    asked = [TopicPartition(topic, p) for topic in ("t", "u", "t") for p in range(100 if topic == "t" else 3)]
    codes = {tp: 74 if tp.partition % 7 == 0 else 0 for tp in asked}
    request = StopReplicaRequest(9, 5, 11, {tp: StopReplicaPartition(3, delete=True) for tp in asked})

    response = control_requests.decode_response(
        request, version, answer(ApiKey.STOP_REPLICA, version, 0, list(codes.items()))
    )

    assert {tp: int(error) for tp, error in response.partition_errors.items()} == codes


def many_errors(version: int, topics: int) -> tuple[StopReplicaRequest, bytes]:
    """A request for 4,000 replicas and its answer, in which no two neighbours have the same topic."""
    asked = [TopicPartition(f"t{number % topics}", number // topics) for number in range(4_000)]
    request = StopReplicaRequest(9, 5, 11, {tp: StopReplicaPartition(3, delete=True) for tp in asked})
    return request, answer(ApiKey.STOP_REPLICA, version, 0, [(tp, 0) for tp in asked])


@pytest.mark.parametrize("topics", [1, 40])
async def test_a_long_answer_is_decoded_in_slices(monkeypatch: pytest.MonkeyPatch, topics: int) -> None:
    monkeypatch.setattr(Slicer, "is_due", True)
    request, body = many_errors(4, topics)

    with Turns() as turns:
        response = await control_requests.decode_in_turns(request, 4, body)

    assert response == control_requests.decode_response(request, 4, body)
    assert turns.count >= 7, "one turn for each thousand rows, and more for the requested replicas"


def test_decoding_rows_of_many_topics_reads_each_byte_at_most_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    request, body = many_errors(4, topics=40)
    peeked: list[int] = []

    class Counting(Cursor):
        def peek(self, size: int) -> bytes:
            peeked.append(size)
            return super().peek(size)

    monkeypatch.setattr(stop_replica_wire, "Cursor", Counting)
    control_requests.decode_response(request, 4, body)

    assert sum(peeked) < 2 * len(body)


async def test_encoding_in_turns_gives_the_same_bytes() -> None:
    for request in (leader_and_isr(), stop_replica(), UpdateMetadataRequest(9, 5, 1, update_body())):
        assert b"".join(await control_requests.encode_in_turns(request, 4)) == b"".join(
            control_requests.encode(request, 4)
        )


@pytest.mark.parametrize("version", range(9))
def test_an_answer_to_update_metadata_has_one_error(version: int) -> None:
    body = answer(ApiKey.UPDATE_METADATA, version, 77, [])

    response = control_requests.decode_response(UpdateMetadataRequest(9, 5, 1, update_body()), version, body)

    assert response.error is KafkaError.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(5))
def test_an_answer_to_stop_replica_names_failed_and_deleted_replicas(version: int) -> None:
    failed, deleted, stopped = TopicPartition("u", 1), T0, U0
    request = StopReplicaRequest(9, 5, 11, {**stop_replica().partitions, failed: StopReplicaPartition(-1, False)})
    body = answer(ApiKey.STOP_REPLICA, version, 0, [(deleted, 0), (stopped, 0), (failed, 74)])

    response = control_requests.decode_response(request, version, body)

    assert response.partition_errors == {deleted: KafkaError.NONE, failed: KafkaError.FENCED_LEADER_EPOCH}


def test_an_error_code_without_a_name_is_an_unknown_server_error() -> None:
    body = b"\x7f\xff" + answer(ApiKey.UPDATE_METADATA, 8, 0, [])[2:]

    response = control_requests.decode_response(UpdateMetadataRequest(9, 5, 1, update_body()), 8, body)

    assert response.error is KafkaError.UNKNOWN_SERVER_ERROR


def test_an_answer_with_an_unrequested_topic_id_is_malformed() -> None:
    body = answer(ApiKey.LEADER_AND_ISR, 7, 0, [(TopicPartition("x", 0), 0)])

    with pytest.raises(MalformedMessage, match="topic id"):
        control_requests.decode_response(leader_and_isr(), 7, body)


@pytest.mark.parametrize("version", [0, 4, 7])
def test_an_answer_cut_anywhere_is_malformed(version: int) -> None:
    body = answer(ApiKey.LEADER_AND_ISR, version, 0, [(T0, 0), (T1, 56), (U0, 11)])

    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            control_requests.decode_response(leader_and_isr(), version, body[:end])


def test_bytes_after_an_answer_are_malformed() -> None:
    with pytest.raises(MalformedMessage, match="too many"):
        control_requests.decode_response(stop_replica(), 4, answer(ApiKey.STOP_REPLICA, 4, 0, []) + b"\0")


@given(body=st.binary(max_size=200), version=st.integers(0, 4))
def test_any_bytes_are_read_or_refused(body: bytes, version: int) -> None:
    try:
        control_requests.decode_response(stop_replica(), version, body)
    except MalformedMessage:
        return
