"""One broker's sender: it tries again after a pause, and tells what waits and when it last heard of the broker."""

import asyncio
import contextlib

from channel_manager.settings import ChannelSettings
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, LeaderAndIsrRequest
from tests.channel_manager.requests import CONTROLLER, ONE, T_ID, leader_and_isr, state, stop_replica
from tests.channel_manager.stub_broker import StubBroker, eventually
from tests.channel_manager.test_manager import Desk, channels, one_broker
from wire.framing import encode_frame, read_frame

PAUSE_S = 5.0


def large() -> LeaderAndIsrRequest:
    entry = LeaderAndIsrPartition(state(), ReplicaAssignment(ONE), is_new=False)
    partitions = {TopicPartition("t", number): entry for number in range(40_000)}
    return LeaderAndIsrRequest(CONTROLLER, 5, 1, partitions, {"t": T_ID}, ())


async def test_a_connection_that_ends_while_the_body_is_made_counts_as_a_failure() -> None:
    stub = StubBroker(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stub.connections += 1
        with contextlib.suppress(ConnectionError):
            frame = await read_frame(reader)
            assert frame is not None
            writer.write(encode_frame(stub._api_versions(frame)))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stub.port = server.sockets[0].getsockname()[1]
    desk = Desk()
    async with channels(desk, ChannelSettings(backoff_s=PAUSE_S, coalesce=False)) as manager:
        manager.add_broker(stub.registration())
        manager.send(BrokerId(1), large())
        await eventually(lambda: manager.stats()[0].failing)
        tried = stub.connections
    server.close()

    assert tried <= 2


async def test_what_is_under_way_comes_before_what_waits() -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        manager.send(BrokerId(1), leader_and_isr())
        await stub.got_so_many(1)
        manager.send(BrokerId(1), stop_replica(delete=True))

        pending = manager.pending(BrokerId(1), 10)
        first = manager.pending(BrokerId(1), 1)
        stub.gate.set()

    shown = [(each.api, each.partitions, each.attempts, each.in_flight) for each in pending]
    assert shown == [("LeaderAndIsr", 1, 1, True), ("StopReplica", 1, 0, False)]
    assert all(each.age_s >= 0 for each in pending)
    assert [each.api for each in first] == ["LeaderAndIsr"]


async def test_nothing_is_pending_once_all_is_answered_or_where_no_broker_is() -> None:
    async with one_broker() as (desk, manager, _):
        manager.send(BrokerId(1), leader_and_isr())
        await eventually(lambda: len(desk.exchanges) == 1 and manager.stats()[0].depth == 0)

        assert manager.pending(BrokerId(1), 10) == []
        assert manager.pending(BrokerId(9), 10) == []


async def test_it_tells_when_it_last_asked_and_when_it_was_last_answered() -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        before = manager.stats()[0]
        manager.send(BrokerId(1), leader_and_isr())
        await stub.got_so_many(1)
        asked = manager.stats()[0]
        stub.gate.set()
        await eventually(lambda: manager.stats()[0].last_answered_s is not None)
        answered = manager.stats()[0]

    assert (before.last_sent_s, before.last_answered_s) == (None, None)
    assert asked.last_sent_s is not None
    assert asked.last_answered_s is None
    assert answered.last_sent_s is not None
    assert answered.last_answered_s is not None
    assert 0 <= answered.last_answered_s <= answered.last_sent_s
