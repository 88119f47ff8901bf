"""Senders and their manager against brokers on real sockets."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest

from channel_manager.manager import Alarms, ChannelManager
from channel_manager.observer import Exchange
from channel_manager.settings import ChannelSettings
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint, TopicPartition
from controllerd.core.releases import Release
from controllerd.core.requests import ControlRequest, UpdateMetadataBody, UpdateMetadataRequest
from controllerd.errors import IllegalState
from events.base import Event
from events.responses import ApiVersionsReceived, LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived
from events.topics import TopicDeletionStopReplicaResponseReceived
from tests.channel_manager.requests import CONTROLLER, NEW_ID, leader_and_isr, stop_replica, update_metadata
from tests.channel_manager.stub_broker import Act, StubBroker, eventually, stub_broker
from tests.channel_manager.test_broker_queue import ChannelClock
from wire import control_requests
from wire.framing import encode_frame, read_frame
from wire.versions import ApiKey

B1, B2 = BrokerId(1), BrokerId(2)
FAST = ChannelSettings(backoff_s=0.01, authorization_backoff_s=0.02, coalesce=False)


@dataclass
class Reports:
    """The events, alarms and requests that the manager reports, in order."""

    events: list[Event] = field(default_factory=list)
    releases: list[ApiVersionsReceived] = field(default_factory=list)
    """The ApiVersions answer of each connection, apart from the answers to requests."""
    stale: list[tuple[BrokerId, int]] = field(default_factory=list)
    caught_up: list[BrokerId] = field(default_factory=list)
    defects: list[Exception] = field(default_factory=list)
    requests: list[tuple[BrokerId, int, int]] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    may_send: bool = True

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        self.waited.append(waited_s)

    def on_request(self, broker: BrokerId, request: ControlRequest, version: int, correlation: int, size: int) -> None:
        self.requests.append((broker, version, correlation))

    def on_response(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def emit(self, event: Event) -> None:
        if isinstance(event, ApiVersionsReceived):
            self.releases.append(event)
        else:
            self.events.append(event)

    async def has_events(self, number: int) -> list[Event]:
        await eventually(lambda: len(self.events) >= number)
        return self.events


@asynccontextmanager
async def channels(
    reports: Reports,
    settings: ChannelSettings = FAST,
    listener: str = "PLAINTEXT",
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[ChannelManager]:
    alarms = Alarms(
        stale_epoch=lambda broker, epoch: reports.stale.append((broker, epoch)),
        caught_up=reports.caught_up.append,
        defect=lambda _, error: reports.defects.append(error),
        may_send=lambda: reports.may_send,
    )
    async with ChannelManager(
        CONTROLLER, listener, reports.emit, alarms, clock=clock, settings=settings, observer=reports
    ) as manager:
        yield manager


@asynccontextmanager
async def one_broker(
    *acts: Act, gate: bool = True, settings: ChannelSettings = FAST
) -> AsyncIterator[tuple[Reports, ChannelManager, StubBroker]]:
    """A stub broker, and a manager with a channel to it."""
    reports = Reports()
    async with stub_broker(1, *acts, gate=gate) as stub, channels(reports, settings) as manager:
        manager.add_broker(stub.registration())
        yield reports, manager, stub


async def test_requests_arrive_in_order() -> None:
    async with one_broker() as (_, manager, stub):
        for request in (leader_and_isr(), update_metadata(0), stop_replica(delete=True)):
            manager.send(B1, request)

        assert [got.api for got in await stub.got_so_many(3)] == ["LeaderAndIsr", "UpdateMetadata", "StopReplica"]


async def test_the_client_id_is_the_controller_id() -> None:
    async with one_broker() as (_, manager, stub):
        manager.send(B1, update_metadata())

        assert (await stub.got_so_many(1))[0].header.client_id == str(CONTROLLER)


async def test_the_release_of_a_broker_is_reported_once_despite_several_connections() -> None:
    async with one_broker(Act(close=True), Act()) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await reports.has_events(1)

        assert stub.connections == 2
        assert reports.releases == [ApiVersionsReceived(B1, 1, Release(3, 4))]


async def test_only_one_request_is_in_flight_kafka_4959() -> None:
    async with one_broker() as (reports, manager, stub):
        for epoch in range(20):
            manager.send(B1, leader_and_isr(epoch))
        await reports.has_events(20)

        assert stub.most_in_flight == 1


async def test_a_slow_broker_delays_no_other() -> None:
    reports = Reports()
    async with stub_broker(1, gate=False) as slow, stub_broker(2) as fast, channels(reports) as manager:
        for stub in (slow, fast):
            manager.add_broker(stub.registration())
            manager.send(BrokerId(stub.id), leader_and_isr())
        await slow.got_so_many(1)
        await reports.has_events(1)

        assert [event.broker for event in reports.events if isinstance(event, LeaderAndIsrResponseReceived)] == [B2]


async def test_a_request_without_an_answer_is_repeated_unchanged_before_the_next_one() -> None:
    async with one_broker(Act(close=True), Act(close=True)) as (_, manager, stub):
        manager.send(B1, leader_and_isr())
        manager.send(B1, update_metadata(0))
        got = await stub.got_so_many(4)

        assert got[0].frame == got[1].frame == got[2].frame
        assert got[3].api == "UpdateMetadata"


@pytest.mark.parametrize("act", [Act(correlation_offset=1), Act(cut=1), Act(silence=True)], ids=str)
async def test_after_an_unusable_answer_the_request_is_repeated_on_a_new_connection(act: Act) -> None:
    settings = ChannelSettings(backoff_s=0.01, request_timeout_s=0.2)
    async with one_broker(act, settings=settings) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await reports.has_events(1)

        assert stub.connections == 2
        assert stub.got[0].frame == stub.got[1].frame


@pytest.mark.parametrize("act", [Act(correlation_offset=1), Act(cut=1), Act(silence=True)], ids=str)
async def test_a_connection_that_failed_is_closed_by_the_sender_kafka_907_and_kafka_3916(act: Act) -> None:
    """The stub keeps every connection open until the sender closes it: only the new one is left."""
    settings = ChannelSettings(backoff_s=0.01, request_timeout_s=0.2)
    async with one_broker(act, act, act, settings=settings) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await reports.has_events(1)
        await stub.until(lambda: stub.open_now == 1)

        assert stub.connections == 4


async def test_a_sender_that_fails_by_a_defect_closes_its_connection_kafka_907() -> None:
    async with one_broker() as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await reports.has_events(1)
        broken = leader_and_isr(1)
        manager.send(B1, replace(broken, partitions={TopicPartition("t", 0): None}))  # type: ignore[dict-item]  # defect
        await stub.until(lambda: stub.open_now == 0)

        assert reports.defects


async def test_a_refused_connection_is_tried_until_the_broker_listens() -> None:
    async with stub_broker() as gone:
        port = gone.port
    reports = Reports()
    async with channels(reports) as manager:
        manager.add_broker(gone.registration())
        manager.send(B1, leader_and_isr())
        await eventually(lambda: manager.stats()[0].retries >= 2)
        async with stub_broker(port=port) as stub:
            await stub.got_so_many(1)
            await reports.has_events(1)
            manager.remove_broker(B1)

    assert reports.exchanges[0].response.error is KafkaError.NONE


async def test_removing_a_broker_ends_its_retries_and_closes_its_connection_kafka_907() -> None:
    async with one_broker(gate=False) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        manager.send(B1, update_metadata(0))
        await stub.got_so_many(1)

        manager.remove_broker(B1)
        stub.gate.set()
        await stub.until(lambda: stub.open_now == 0)

        assert len(stub.got) == 1
        assert reports.events == []
        assert manager.stats() == []


async def test_no_request_is_sent_after_shutdown() -> None:
    async with one_broker() as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await reports.has_events(1)

        manager.send(B1, leader_and_isr(1))
        manager.shutdown()
        await stub.until(lambda: stub.open_now == 0)

        assert len(stub.got) == 1


async def test_a_request_in_the_send_buffer_at_shutdown_is_never_sent_in_full() -> None:
    arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    reading = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stub = StubBroker()
        writer.write(encode_frame(stub._api_versions(await read_frame(reader) or b"")))
        await reader.readexactly(4)
        reading.set()
        await stopped.wait()
        received = b""
        with suppress(ConnectionError):
            received = await reader.read()
        writer.close()
        arrived.set_result(received)

    stopped = asyncio.Event()
    reports, large = Reports(), thirty_megabytes()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, channels(reports) as manager:
        manager.add_broker(StubBroker(port=server.sockets[0].getsockname()[1]).registration())
        manager.send(B1, large)
        await reading.wait()

        manager.shutdown()
        stopped.set()

        assert len(await arrived) < sum(map(len, control_requests.encode(large, 8)))


def thirty_megabytes() -> UpdateMetadataRequest:
    """A request that is larger than the buffers of a loopback connection."""
    endpoint = Endpoint("PLAINTEXT", "h" * 30_000_000, 9092)
    body = UpdateMetadataBody({}, {}, (Broker(B1, 1, (endpoint,)),))
    return replace(update_metadata(), body=body)


async def test_a_request_for_an_unknown_broker_is_dropped() -> None:
    reports = Reports()
    async with channels(reports) as manager:
        manager.send(B2, leader_and_isr())

        assert manager.stats() == []


async def test_a_channel_cannot_be_opened_before_the_manager_runs() -> None:
    async with stub_broker() as stub:
        alarms = Alarms(lambda *_: None, lambda _: None, lambda *_: None)
        manager = ChannelManager(CONTROLLER, "PLAINTEXT", print, alarms, clock=time.monotonic)

        with pytest.raises(IllegalState):
            manager.add_broker(stub.registration())


async def test_an_error_in_the_block_of_the_manager_is_raised_unchanged() -> None:
    with pytest.raises(IllegalState, match="mine"):
        async with one_broker():
            raise IllegalState("mine")


async def test_every_answer_to_leader_and_isr_and_update_metadata_is_an_event() -> None:
    async with one_broker(Act(error=77)) as (reports, manager, _):
        manager.send(B1, leader_and_isr())
        manager.send(B1, update_metadata(0))
        events = await reports.has_events(2)

    assert events == [
        LeaderAndIsrResponseReceived(
            B1, 1, 5, KafkaError.STALE_BROKER_EPOCH, {}, frozenset({TopicPartition("t", 0)})
        ),
        UpdateMetadataResponseReceived(B1, 1, 5, KafkaError.NONE),
    ]  # fmt: skip


async def test_only_stop_replica_with_deletions_causes_an_event() -> None:
    async with one_broker() as (reports, manager, _):
        manager.send(B1, stop_replica(delete=False))
        manager.send(B1, stop_replica(delete=True, partition=3))
        events = await reports.has_events(1)

    tp = TopicPartition("t", 3)
    assert events == [TopicDeletionStopReplicaResponseReceived(B1, 1, 5, KafkaError.NONE, {tp: KafkaError.NONE})]


async def test_a_deletion_with_a_top_level_error_failed_for_every_replica() -> None:
    async with one_broker(Act(error=77)) as (reports, manager, _):
        manager.send(B1, stop_replica(delete=True))
        events = await reports.has_events(1)

    error = KafkaError.STALE_BROKER_EPOCH
    assert events == [TopicDeletionStopReplicaResponseReceived(B1, 1, 5, error, {TopicPartition("t", 0): error})]


async def test_a_higher_controller_epoch_is_reported() -> None:
    async with one_broker(Act(error=11)) as (reports, manager, _):
        manager.send(B1, update_metadata())
        await reports.has_events(1)

    assert reports.stale == [(B1, 5)]


async def test_a_request_refused_for_its_epoch_is_not_sent_again() -> None:
    async with one_broker(Act(error=11)) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        manager.send(B1, update_metadata(0))
        got = [each.api for each in await stub.got_so_many(2)]
        await reports.has_events(2)

    assert got == ["LeaderAndIsr", "UpdateMetadata"]
    assert [exchange.response.error for exchange in reports.exchanges] == [11, 0]
    assert reports.stale == [(B1, 5)]


async def test_an_unauthorized_request_is_repeated_until_it_is_allowed() -> None:
    async with one_broker(Act(error=31), Act(error=31)) as (reports, manager, stub):
        manager.send(B1, update_metadata())
        await reports.has_events(1)

        assert len(stub.got) == 3
        assert len(reports.events) == 1


async def test_a_broker_without_the_listener_fails_alone_and_is_shown_as_failing() -> None:
    reports = Reports()
    async with stub_broker(1) as odd, stub_broker(2) as good, channels(reports) as manager:
        manager.add_broker(odd.registration(listener="OTHER"))
        manager.add_broker(good.registration())
        manager.send(B1, leader_and_isr())
        manager.send(B2, leader_and_isr())
        await reports.has_events(1)
        await eventually(lambda: manager.stats()[0].failing)

        assert "no listener PLAINTEXT" in (manager.stats()[0].last_error or "")
        assert manager.stats()[1].sent == 1


async def test_a_broker_with_a_new_address_gets_the_request_there() -> None:
    reports = Reports()
    async with stub_broker(gate=False) as before, stub_broker() as after, channels(reports) as manager:
        manager.add_broker(before.registration())
        manager.send(B1, leader_and_isr())
        await before.got_so_many(1)

        manager.add_broker(after.registration())
        await reports.has_events(1)

        assert before.got[0].frame == after.got[0].frame


async def test_a_broker_that_bounced_starts_with_an_empty_queue() -> None:
    async with one_broker(gate=False) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await stub.got_so_many(1)

        manager.add_broker(stub.registration(epoch=2))
        stub.gate.set()
        manager.send(B1, update_metadata())
        await reports.has_events(1)

        assert [got.api for got in stub.got] == ["LeaderAndIsr", "UpdateMetadata"]


def kept(manager: ChannelManager) -> list[str]:
    removals = manager.take_removals(B1)
    assert all(entry.state.leader == -2 for entry in removals.values())
    return sorted(map(str, removals))


async def test_unconfirmed_removals_of_a_closed_channel_are_returned_once() -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        manager.send(B1, update_metadata(0, leader=-2))
        await stub.got_so_many(1)
        manager.send(B1, update_metadata(0, topic_id=NEW_ID))
        manager.send(B1, update_metadata(0, 1, leader=-2, topic_id=NEW_ID))
        manager.send(B1, stop_replica(delete=True, partition=7))
        manager.send(B1, update_metadata(2, leader=-2, topic="u"))

        before = kept(manager)
        manager.add_broker(stub.registration(epoch=2))

        assert before == []
        assert kept(manager) == ["t-0", "t-1", "u-2"]
        assert kept(manager) == []


async def test_a_removal_that_was_refused_for_its_broker_epoch_is_kept() -> None:
    async with one_broker(Act(error=KafkaError.STALE_BROKER_EPOCH)) as (_, manager, stub):
        manager.send(B1, update_metadata(0, leader=-2))
        manager.send(B1, update_metadata(1, topic="u"))
        assert await manager.drain(10)

        manager.add_broker(stub.registration(epoch=2))

        assert kept(manager) == ["t-0"]


@pytest.mark.parametrize("error", [KafkaError.NONE, KafkaError.UNKNOWN_SERVER_ERROR])
async def test_a_removal_with_any_other_answer_is_not_kept(error: KafkaError) -> None:
    """A later request of that channel may have sent the broker the topic created anew."""
    async with one_broker(Act(error=error)) as (_, manager, _stub):
        manager.send(B1, update_metadata(0, leader=-2))
        assert await manager.drain(10)

        manager.remove_broker(B1)

        assert kept(manager) == []


async def test_removals_are_kept_for_a_broker_that_fails_again_before_it_confirms_them() -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        manager.send(B1, update_metadata(0, leader=-2))
        manager.remove_broker(B1)
        manager.add_broker(stub.registration(epoch=2))
        manager.send(B1, update_metadata(1, leader=-2))
        manager.remove_broker(B1)
        manager.remove_broker(B1)

        assert kept(manager) == ["t-0", "t-1"]


@pytest.mark.parametrize("is_dead", [True, False])
async def test_no_removal_is_kept_for_the_next_term(*, is_dead: bool) -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        manager.send(B1, update_metadata(0, leader=-2))
        if is_dead:
            manager.remove_broker(B1)
        manager.shutdown()

        manager.add_broker(stub.registration(epoch=2))

        assert kept(manager) == []


async def test_an_old_broker_is_sent_requests_of_its_versions() -> None:
    async with one_broker() as (reports, manager, stub):
        stub.versions = {ApiKey.LEADER_AND_ISR: (0, 4), ApiKey.UPDATE_METADATA: (0, 6), ApiKey.STOP_REPLICA: (0, 2)}
        for request in (leader_and_isr(), update_metadata(0), stop_replica(delete=True)):
            manager.send(B1, request)
        await reports.has_events(3)

        assert [got.header.version for got in stub.got] == [4, 6, 2]


async def test_a_request_without_topic_ids_is_sent_in_a_version_without_them() -> None:
    async with one_broker() as (reports, manager, stub):
        manager.send(B1, update_metadata(0))
        manager.send(B1, without_ids())
        await reports.has_events(2)

        assert [got.header.version for got in stub.got] == [8, 6]


def without_ids() -> ControlRequest:
    request = update_metadata(0)
    return replace(request, body=replace(request.body, topic_ids={}))


async def test_a_broker_that_lacks_an_api_is_shown_as_failing() -> None:
    async with one_broker() as (_, manager, stub):
        del stub.versions[ApiKey.LEADER_AND_ISR]
        manager.send(B1, leader_and_isr())
        await eventually(lambda: manager.stats()[0].failing)

        assert "LEADER_AND_ISR" in (manager.stats()[0].last_error or "")


async def test_no_request_is_sent_while_sending_is_not_allowed() -> None:
    async with one_broker() as (reports, manager, stub):
        reports.may_send = False
        manager.send(B1, leader_and_isr())
        await eventually(lambda: manager.stats()[0].in_flight is not None)
        connections_before = stub.connections
        reports.may_send = True
        await reports.has_events(1)

        assert (connections_before, stub.connections) == (0, 1)


async def test_a_request_that_may_no_longer_be_sent_after_its_encoding_is_held_back() -> None:
    async with one_broker() as (reports, manager, stub):
        async with manager._shared.encoding:
            manager.send(B1, leader_and_isr())
            await eventually(lambda: manager.stats()[0].connected)
            reports.may_send = False
        await eventually(lambda: not manager._shared.encoding.locked())
        sent_before = manager.stats()[0].bytes_sent
        reports.may_send = True
        await reports.has_events(1)

    assert sent_before == 0
    assert [got.api for got in stub.got] == ["LeaderAndIsr"]


async def test_bodies_are_encoded_one_after_the_other() -> None:
    async with one_broker() as (_, manager, stub), manager._shared.encoding:
        manager.send(B1, leader_and_isr())
        await eventually(lambda: manager.stats()[0].connected)

        assert stub.got == []


async def test_an_idle_connection_that_the_broker_closed_counts_as_no_retry() -> None:
    async with one_broker() as (reports, manager, stub):
        manager.send(B1, update_metadata())
        await reports.has_events(1)
        await stub.hang_up()
        await eventually(lambda: not manager.stats()[0].connected)
        manager.send(B1, update_metadata())
        await reports.has_events(2)

        assert (stub.connections, manager.stats()[0].retries) == (2, 0)


async def test_the_observer_sees_each_attempt_and_the_one_answer() -> None:
    async with one_broker(Act(close=True)) as (reports, manager, _):
        manager.send(B1, leader_and_isr())
        await reports.has_events(1)

    assert reports.requests == [(B1, 7, 1), (B1, 7, 1)]
    assert [(exchange.attempts, exchange.correlation_id) for exchange in reports.exchanges] == [(2, 1)]


async def test_draining_waits_for_the_last_answer() -> None:
    async with one_broker() as (reports, manager, _):
        for epoch in range(5):
            manager.send(B1, leader_and_isr(epoch))

        assert await manager.drain(10)
        assert len(reports.events) == 5


async def test_draining_gives_up_in_time() -> None:
    async with one_broker(gate=False) as (_, manager, stub):
        manager.send(B1, leader_and_isr())
        await stub.got_so_many(1)

        assert not await manager.drain(0.01)


async def test_a_queue_beyond_its_limits_is_dropped_but_for_deletions_and_the_broker_catches_up() -> None:
    settings = ChannelSettings(backoff_s=0.01, coalesce=False, max_queue_bytes=500)
    async with one_broker(gate=False, settings=settings) as (reports, manager, stub):
        manager.send(B1, leader_and_isr())
        await stub.got_so_many(1)
        manager.send(B1, stop_replica(delete=True))
        for epoch in range(10):
            manager.send(B1, leader_and_isr(epoch))
        manager.send(B1, stop_replica(delete=True, partition=1))
        was_behind = manager.stats()[0].behind
        stub.gate.set()
        assert await manager.drain(10)

        assert was_behind
        assert [got.api for got in stub.got] == ["LeaderAndIsr", "StopReplica", "StopReplica"]
        assert reports.caught_up == [B1]


async def test_requests_are_sent_again_after_the_broker_caught_up() -> None:
    settings = ChannelSettings(backoff_s=0.01, coalesce=False, max_queue_bytes=100)
    async with one_broker(gate=False, settings=settings) as (_, manager, stub):
        for epoch in range(3):
            manager.send(B1, leader_and_isr(epoch))
            await stub.got_so_many(1)
        stub.gate.set()
        assert await manager.drain(10)

        manager.send(B1, update_metadata())
        assert await manager.drain(10)

        assert stub.got[-1].api == "UpdateMetadata"


async def test_requests_after_a_broker_caught_up_are_not_dropped_for_the_age_of_deletions() -> None:
    settings = ChannelSettings(backoff_s=0.01, coalesce=False, max_queue_age_s=30.0)
    reports, clock = Reports(), ChannelClock()
    async with stub_broker(1, gate=False) as stub, channels(reports, settings, clock=clock) as manager:
        manager.add_broker(stub.registration())
        manager.send(B1, leader_and_isr())
        await stub.got_so_many(1)
        manager.send(B1, stop_replica(delete=True))
        manager.send(B1, stop_replica(delete=True, partition=1))
        clock.now = 31.0
        manager.send(B1, update_metadata(0))
        was_behind = manager.stats()[0].behind
        clock.now = 3600.0
        stub.gate.set()
        stub.gate.clear()  # only the requests that wait now are answered
        await stub.got_so_many(2)
        manager.send(B1, update_metadata(1))
        stub.gate.set()
        assert await manager.drain(10)

        assert was_behind
        assert [got.api for got in stub.got] == ["LeaderAndIsr", "StopReplica", "StopReplica", "UpdateMetadata"]
        assert reports.caught_up == [B1]


async def test_a_broker_that_is_behind_gets_one_merged_update_metadata() -> None:
    settings = ChannelSettings(backoff_s=0.01, coalesce_age_s=0.0)
    async with one_broker(gate=False, settings=settings) as (_, manager, stub):
        manager.send(B1, leader_and_isr())
        await stub.got_so_many(1)
        manager.send(B1, update_metadata(0))
        manager.send(B1, update_metadata(1))
        stub.gate.set()
        assert await manager.drain(10)

        assert [got.api for got in stub.got] == ["LeaderAndIsr", "UpdateMetadata"]


async def test_ten_brokers_are_served_at_once() -> None:
    reports = Reports()
    async with AsyncExitStack() as stack:
        stubs = [await stack.enter_async_context(stub_broker(number)) for number in range(1, 11)]
        manager = await stack.enter_async_context(channels(reports))
        for stub in stubs:
            manager.add_broker(stub.registration())
            manager.send(BrokerId(stub.id), leader_and_isr())

        assert await manager.drain(10)
        assert len(reports.events) == 10


async def test_a_defect_ends_one_sender_and_is_reported() -> None:
    reports = Reports()
    async with stub_broker(1) as stub, stub_broker(2) as other, channels(reports) as manager:
        manager.add_broker(stub.registration())
        manager.add_broker(other.registration())
        manager.send(B1, leader_and_isr(epoch=2**40))
        await eventually(lambda: bool(reports.defects))
        manager.send(B2, leader_and_isr())
        await reports.has_events(1)

        assert manager.stats()[0].failing


async def test_a_channel_whose_sender_ended_by_a_defect_can_be_reopened() -> None:
    async with one_broker() as (reports, manager, stub):
        manager.send(B1, leader_and_isr(epoch=2**40))
        await eventually(lambda: bool(reports.defects))

        manager.add_broker(stub.registration())
        manager.send(B1, leader_and_isr())

        assert await manager.drain(10)
        assert [type(event) for event in reports.events] == [LeaderAndIsrResponseReceived]


@pytest.mark.parametrize("host", ["broker..example", f"{'x' * 70}.example"])
async def test_an_invalid_host_name_is_a_failure_and_no_defect(host: str) -> None:
    """The registration is wrong, not the sender, which retries until the broker corrects it."""
    reports = Reports()
    async with stub_broker(1) as stub, channels(reports) as manager:
        good = stub.registration()
        manager.add_broker(replace(good, endpoints=(Endpoint("PLAINTEXT", host, good.endpoints[0].port),)))
        manager.send(B1, leader_and_isr())
        await eventually(lambda: manager.stats()[0].failing)

        manager.add_broker(good)

        assert await manager.drain(10)
        assert reports.defects == []
