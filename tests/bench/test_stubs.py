"""The stubs acknowledge requests of a controller, keep them with their time, and can be slow or silent."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.stubs import LOOPBACK, StubBrokers, read_saved, stub_brokers
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataRequest,
)
from wire import control_requests
from wire.connection import KafkaConnection
from wire.kio_codec import decode_entity, response_type
from wire.versions import CONTROL_VERSIONS, ApiKey

TP = TopicPartition("t", 0)
ROW = LeaderAndIsrPartition(LeaderAndIsr(1, 0, (1,), 1, 0), ReplicaAssignment((1,)), is_new=False)  # type: ignore[arg-type]
REQUESTS: list[ControlRequest] = [
    LeaderAndIsrRequest(9, 5, 11, {TP: ROW}, {"t": "AAAAAAAAAAAAAAAAAAAABw"}, ()),
    UpdateMetadataRequest(9, 5, 11, UpdateMetadataBody({}, {}, ())),
    StopReplicaRequest(9, 5, 11, {TP: StopReplicaPartition(3, delete=True)}),
]


@pytest.fixture
async def stubs() -> AsyncIterator[StubBrokers]:
    """Two stub brokers."""
    async with stub_brokers(2) as started:
        yield started


async def connect(stubs: StubBrokers, broker: int, timeout_s: float = 10.0) -> KafkaConnection:
    """A controller's connection to a stub."""
    return await KafkaConnection.connect(LOOPBACK, stubs.ports[broker - 1], "c", request_timeout_s=timeout_s)


async def send(connection: KafkaConnection, request: ControlRequest) -> KafkaError:
    """Send a request; the error in its answer."""
    api = control_requests.api_key(request)
    version = CONTROL_VERSIONS[api].highest
    answer = await connection.request(api, version, *control_requests.encode(request, version))
    return control_requests.decode_response(request, version, answer).error


async def test_the_answers_of_a_stub_are_successes(stubs: StubBrokers) -> None:
    connection = await connect(stubs, 1)

    spoken = {api: versions.highest for api, versions in (await connection.api_versions()).items()}
    assert spoken == {api: versions.highest for api, versions in CONTROL_VERSIONS.items()} | {ApiKey.METADATA: 12}
    assert [await send(connection, request) for request in REQUESTS] == [KafkaError.NONE] * 3
    await connection.close()


async def test_requests_are_kept_with_broker_time_and_bytes(stubs: StubBrokers, tmp_path: Path) -> None:
    connection = await connect(stubs, 2)
    before = time.monotonic_ns()
    await send(connection, REQUESTS[0])
    after = time.monotonic_ns()

    assert await stubs.count() == [0, 1]
    await stubs.save(tmp_path / "arrived")
    (arrived,) = read_saved(tmp_path / "arrived")

    assert arrived.broker == 2
    assert before <= arrived.at_ns <= after
    assert arrived.frame.endswith(b"".join(control_requests.encode(REQUESTS[0], 7)))
    await connection.close()


async def test_a_large_frame_may_come_in_pieces(stubs: StubBrokers, tmp_path: Path) -> None:
    many = {TopicPartition("t", p): ROW for p in range(50_000)}
    request = LeaderAndIsrRequest(9, 5, 11, many, {"t": "AAAAAAAAAAAAAAAAAAAABw"}, ())
    connection = await connect(stubs, 1)

    assert await send(connection, request) is KafkaError.NONE
    await stubs.save(tmp_path / "arrived")
    (arrived,) = read_saved(tmp_path / "arrived")

    assert arrived.frame.endswith(b"".join(control_requests.encode(request, 7)))
    await connection.close()


async def test_a_stub_can_name_every_partition_as_brokers_do(stubs: StubBrokers) -> None:
    await stubs.answer_in_full()
    connection = await connect(stubs, 1)
    request = REQUESTS[0]

    answer = await connection.request(control_requests.api_key(request), 7, *control_requests.encode(request, 7))
    decoded: Any = decode_entity(response_type(control_requests.api_key(request), 7), answer)

    assert [
        (topic.topic_id.int, [row.partition_index for row in topic.partition_errors]) for topic in decoded.topics
    ] == [(7, [0])]
    await connection.close()


async def test_a_stub_answers_with_every_replica_of_a_stop_replica(stubs: StubBrokers) -> None:
    connection = await connect(stubs, 1)
    request = REQUESTS[2]

    answer = await connection.request(control_requests.api_key(request), 4, *control_requests.encode(request, 4))
    decoded: Any = decode_entity(response_type(control_requests.api_key(request), 4), answer)

    assert [(row.topic_name, row.partition_index, row.error_code) for row in decoded.partition_errors] == [("t", 0, 0)]
    await connection.close()


async def test_a_silent_stub_keeps_requests_that_it_does_not_answer(stubs: StubBrokers) -> None:
    await stubs.silence(1)
    connection = await connect(stubs, 1, timeout_s=0.2)

    with pytest.raises(TimeoutError):
        await send(connection, REQUESTS[1])

    assert await stubs.count() == [1, 0]
    await connection.close()


async def test_a_slow_stub_answers_late(stubs: StubBrokers) -> None:
    await stubs.slow_down(1, 0.2)
    connection = await connect(stubs, 1)
    before = asyncio.get_running_loop().time()

    assert await send(connection, REQUESTS[1]) is KafkaError.NONE

    assert asyncio.get_running_loop().time() - before >= 0.19
    await connection.close()
