"""One broker's sender: it retries after a pause, and shows its queue and the time of the last request and answer."""

import asyncio
import contextlib

from channel_manager.settings import ChannelSettings
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, LeaderAndIsrRequest
from tests.channel_manager.requests import CONTROLLER, ONE, T_ID, leader_and_isr, state, stop_replica
from tests.channel_manager.stub_broker import StubBroker, eventually
from tests.channel_manager.test_manager import Reports, channels, one_broker
from wire.framing import encode_frame, read_frame

PAUSE_S = 5.0


def large() -> LeaderAndIsrRequest:
    entry = LeaderAndIsrPartition(state(), ReplicaAssignment(ONE), is_new=False)
    partitions = {TopicPartition("t", number): entry for number in range(40_000)}
    return LeaderAndIsrRequest(CONTROLLER, 5, 1, partitions, {"t": T_ID}, ())


async def test_a_connection_that_ends_during_the_encoding_counts_as_a_failure() -> None:
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
    reports = Reports()
    async with channels(reports, ChannelSettings(backoff_s=PAUSE_S, coalesce=False)) as manager:
        manager.add_broker(stub.registration())
        manager.send(BrokerId(1), large())
        await eventually(lambda: manager.stats()[0].failing)
        tried = stub.connections
    server.close()

    assert tried <= 2


async def test_the_request_in_flight_is_listed_before_the_queued_ones() -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        manager.send(BrokerId(1), leader_and_isr())
        await stub.got_so_many(1)
        manager.send(BrokerId(1), stop_replica(delete=True))

        pending = manager.first_requests(BrokerId(1), 10)
        first = manager.first_requests(BrokerId(1), 1)
        stub.gate.set()

    shown = [(each.api, each.partitions, each.attempts, each.in_flight) for each in pending]
    assert shown == [("LeaderAndIsr", 1, 1, True), ("StopReplica", 1, 0, False)]
    assert all(each.age_s >= 0 for each in pending)
    assert [each.api for each in first] == ["LeaderAndIsr"]


async def test_no_request_is_pending_after_all_answers_or_for_an_unknown_broker() -> None:
    async with one_broker() as (reports, manager, _):
        manager.send(BrokerId(1), leader_and_isr())
        await eventually(lambda: len(reports.exchanges) == 1 and manager.stats()[0].depth == 0)

        assert manager.first_requests(BrokerId(1), 10) == []
        assert manager.first_requests(BrokerId(9), 10) == []


async def test_the_statistics_have_the_time_of_the_last_request_and_the_last_answer() -> None:
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
