"""Bad and slow clients: their connection is closed and counted, one alarm is raised, and other clients are served."""

import asyncio
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllerd.api.server_settings import ServerLimits
from controllerd.core.kafka_error import KafkaError
from controllerd.errors import CallFailed
from controllerd.record.records import AlarmRecord
from tests.api.cluster import (
    NO_ANSWER,
    TOPIC_UUID,
    Client,
    Cluster,
    new_request,
    new_snapshot,
    partition,
    put_topic,
    running,
    until,
)
from wire.kio_codec import encode_request

ALLOCATE = encode_request(1, "test", new_request(67, 0, {}))
ALTER = encode_request(
    1,
    "test",
    new_request(
        56,
        3,
        {
            "topics": [
                {
                    "topic_id": TOPIC_UUID,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "leader_epoch": 1,
                            "new_isr_with_epochs": [{"broker_id": 1}],
                            "partition_epoch": 2,
                        }
                    ],
                }
            ]
        },
    ),
)

ELECT = encode_request(1, "test", new_request(43, 1, {"topic_partitions": [{"topic": "orders", "partitions": (0,)}]}))
MOVE = encode_request(
    1,
    "test",
    new_request(45, 0, {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": (1, 2)}]}]}),
)
CREATE = encode_request(
    1,
    "test",
    new_request(
        19,
        7,
        {
            "topics": [
                {
                    "name": "new",
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}],
                    "configs": [{"name": "segment.ms", "value": "1"}],
                }
            ]
        },
    ),
)
DELETE = encode_request(1, "test", new_request(20, 6, {"topics": [{"name": "orders", "topic_id": None}]}))
EXPAND = encode_request(
    1, "test", new_request(37, 3, {"topics": [{"name": "orders", "count": 3, "assignments": [{"broker_ids": (1,)}]}]})
)

SCRAM = encode_request(
    1,
    "test",
    new_request(
        51,
        0,
        {
            "deletions": [{"name": "alice", "mechanism": 1}],
            "upsertions": [{"name": "bob", "mechanism": 2, "iterations": 1, "salt": b"s", "salted_password": b"p"}],
        },
    ),
)


async def is_served(cluster: Cluster) -> bool:
    client = await cluster.connect()
    return bool((await client.ask(18, 4)).error_code == KafkaError.NONE)


async def send_bytes(cluster: Cluster, data: bytes) -> Client:
    client = await cluster.connect()
    client.writer.write(data)
    await client.writer.drain()
    return client


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -1), "bad frame"),
        (struct.pack(">i", 2**31 - 1), "bad frame"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad frame"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "bad frame"),
        (struct.pack(">i", 0), "malformed request"),
        (struct.pack(">ihh", 4, 18, 0), "malformed request"),
        (struct.pack(">ihhi", 8, -7, 0, 1), "unknown api"),
        (struct.pack(">ihhi", 8, 999, 0, 1), "unknown api"),
        (struct.pack(">ihhi", 8, 3, -1, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 56, 4, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 3, 12, 1), "malformed request"),
        (struct.pack(">i", len(ALLOCATE) + 1) + ALLOCATE + b"\0", "malformed request"),
        (struct.pack(">i", len(ALTER) + 1) + ALTER + b"\0", "malformed request"),
        (struct.pack(">i", len(ALTER) - 3) + ALTER[:-3], "malformed request"),
        (struct.pack(">i", len(ELECT) + 1) + ELECT + b"\0", "malformed request"),
        (struct.pack(">i", len(MOVE) - 3) + MOVE[:-3], "malformed request"),
        (struct.pack(">i", len(CREATE) - 3) + CREATE[:-3], "malformed request"),
        (struct.pack(">i", len(DELETE) + 1) + DELETE + b"\0", "malformed request"),
        (struct.pack(">i", len(EXPAND) - 3) + EXPAND[:-3], "malformed request"),
        (struct.pack(">i", len(SCRAM) - 3) + SCRAM[:-3], "malformed request"),
        (struct.pack(">ihhi", 8, 51, 1, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 19, 8, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 20, -1, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 37, 4, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 45, 1, 1), "unsupported version"),
        (struct.pack(">ihhi", 8, 57, 2, 1), "unsupported version"),
        # A header that announces 2**31 tagged fields.
        (struct.pack(">ihhih", 15, 67, 0, 1, -1) + b"\xff\xff\xff\xff\x07", "malformed request"),
    ],
)
async def test_bytes_that_are_no_request_close_their_connection_and_no_other_input_31(data: bytes, reason: str) -> None:
    async with running() as cluster:
        client = await send_bytes(cluster, data)

        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {reason: 1}
        assert cluster.events == []
        assert await is_served(cluster)


async def test_a_bad_host_raises_one_alarm_and_is_counted_each_time() -> None:
    async with running() as cluster:
        for _ in range(5):
            client = await send_bytes(cluster, struct.pack(">i", -1))
            assert await client.receive() is None

        assert cluster.server.stats().hang_ups == {"bad frame": 5}
        assert len(cluster.audit.of(AlarmRecord)) == 1


async def test_an_array_that_cannot_fit_is_refused_before_anything_is_allocated() -> None:
    async with running() as cluster:
        body = struct.pack(">hhih", 56, 3, 1, -1) + b"\0" + struct.pack(">iq", 1, 1) + b"\xff\xff\xff\xff\x07"
        client = await send_bytes(cluster, struct.pack(">i", len(body)) + body)
        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {"malformed request": 1}


async def test_a_connection_that_was_never_answered_may_send_only_a_small_frame() -> None:
    async with running(limits=ServerLimits(max_first_frame_bytes=100)) as cluster:
        client = await send_bytes(cluster, struct.pack(">i", 101))
        assert await client.receive() is None


async def test_a_connection_that_was_answered_may_send_a_large_frame() -> None:
    async with running(limits=ServerLimits(max_first_frame_bytes=100)) as cluster:
        client = await cluster.connect()
        await client.ask(18, 3)
        many = [{"name": f"topic-{i}", "topic_id": None} for i in range(20_000)]
        assert len((await client.ask(3, 12, topics=many)).topics) == 20_000


async def test_a_client_that_stops_inside_a_frame_is_disconnected() -> None:
    async with running(limits=ServerLimits(frame_s=0.1)) as cluster:
        client = await send_bytes(cluster, struct.pack(">i", 100) + b"only a part")
        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {"slow client": 1}


async def test_a_client_that_stops_inside_a_frame_of_four_bytes_is_slow_and_not_idle() -> None:
    async with running(limits=ServerLimits(frame_s=0.1)) as cluster:
        client = await send_bytes(cluster, struct.pack(">i", 4) + b"12")
        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {"slow client": 1}


async def test_a_client_that_sends_nothing_is_disconnected() -> None:
    async with running(limits=ServerLimits(idle_s=0.1)) as cluster:
        client = await cluster.connect()
        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {"idle": 1}


async def test_a_client_that_does_not_read_its_answers_is_disconnected() -> None:
    snapshot = new_snapshot()
    put_topic(snapshot, "large", None, *(partition(i, 1, 1, 2, 3) for i in range(20_000)))
    async with running(snapshot, limits=ServerLimits(write_s=0.2)) as cluster:
        endpoint = cluster.server.advertised[0]
        frame = encode_request(1, "test", new_request(3, 12, {}))
        with socket.create_connection((endpoint.host, endpoint.port)) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall((struct.pack(">i", len(frame)) + frame) * 20)
            await until(lambda: cluster.server.stats().hang_ups)

        assert cluster.server.stats().hang_ups == {"slow client": 1}
        assert await is_served(cluster)


async def test_at_the_connection_limit_the_longest_idle_connection_is_closed() -> None:
    async with running(limits=ServerLimits(max_connections=2)) as cluster:
        first, second = [await cluster.connect() for _ in range(2)]
        for client in (first, second, first):
            await client.ask(18, 3)
        assert await is_served(cluster), "a broker must reach its controller despite other connections"
        assert await second.receive() is None
        assert cluster.server.stats().hang_ups == {"too many connections": 1}
        assert (await first.ask(18, 3)).error_code == KafkaError.NONE


async def test_at_the_connection_limit_a_new_connection_is_closed_while_all_others_are_busy() -> None:
    async with running(handler=lambda _event: NO_ANSWER, limits=ServerLimits(max_connections=2)) as cluster:
        busy = [await cluster.connect() for _ in range(2)]
        for client in busy:
            await client.send(ALLOCATE)
        await until(lambda: len(cluster.events) == 2)
        assert await (await cluster.connect()).receive() is None
        assert cluster.server.stats().hang_ups == {"too many connections": 1}
        assert cluster.server.stats().connections == 2


async def test_a_flood_of_connections_leaves_no_more_open_than_the_limit() -> None:
    async with running(limits=ServerLimits(max_connections=3)) as cluster:
        for _ in range(20):
            await cluster.connect()
        await until(lambda: cluster.server.stats().accepted == 20)
        assert await is_served(cluster)
        await until(lambda: cluster.server.stats().connections <= 3)


async def test_a_client_that_disconnects_is_not_counted_as_a_hang_up() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        await client.ask(18, 3)
        await client.close()
        await until(lambda: not cluster.server.stats().connections)
        assert cluster.server.stats().hang_ups == {}


async def test_a_closed_server_ends_its_connections_and_frees_its_port() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        await client.ask(18, 3)
        endpoint = cluster.server.advertised[0]
        await cluster.server.close()
        assert await client.receive() is None
        assert cluster.server.stats().connections == 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(endpoint.host, endpoint.port)


HEADS = st.tuples(
    st.sampled_from([0, 3, 7, 10, 16, 18, 19, 20, 22, 32, 35, 37, 43, 44, 45, 46, 51, 56, 57, 60, 66, 67]),
    st.integers(0, 13),
)
FRAMES = st.one_of(
    st.binary(max_size=200),
    st.tuples(HEADS, st.binary(max_size=120)).map(lambda f: struct.pack(">hhih", *f[0], 1, -1) + f[1]),
    st.tuples(
        st.sampled_from([ALTER, ALLOCATE, ELECT, MOVE, CREATE, DELETE, EXPAND, SCRAM]),
        st.integers(0, 60),
        st.integers(0, 255),
    ).map(lambda f: f[0][: f[1]] + bytes([f[2]]) + f[0][f[1] + 1 :]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FRAMES, min_size=1, max_size=4))
def test_no_frame_disturbs_another_connection(frames: list[bytes]) -> None:
    asyncio.run(_fuzz(frames))


async def _fuzz(frames: list[bytes]) -> None:
    async with running(handler=lambda _event: CallFailed("not in this test")) as cluster:
        for frame in frames:
            client = await send_bytes(cluster, struct.pack(">i", len(frame)) + frame)
            client.writer.write_eof()
            await client.receive()
        assert await is_served(cluster)
