"""A broker that accepts, says its versions and hangs up is tried again after the pause, not at once."""

import asyncio
import contextlib

from channel_manager.settings import ChannelSettings
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, LeaderAndIsrRequest
from tests.channel_manager.requests import CONTROLLER, ONE, T_ID, state
from tests.channel_manager.stub_broker import StubBroker, eventually
from tests.channel_manager.test_manager import Desk, channels
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
