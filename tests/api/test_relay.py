"""The relay and ApiVersions: controllerd passes requests on to brokers, one broker per client connection."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from controllerd.api.broker_versions import BrokerVersions
from controllerd.api.relay import Relay
from controllerd.api.server_settings import ServerLimits
from controllerd.api.sessions import AclOperation, Principal
from controllerd.api.shared_versions import SharedVersions, ranges_of
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.releases import Release
from controllerd.views import Role
from tests.api.cluster import BROKER_RANGES, NODE_ID, Client, Cluster, new_request, new_snapshot, running, until
from tests.turns import Turns
from wire.api_codec import Request
from wire.framing import peek_request
from wire.kio_codec import encode_request
from wire.transport import PLAINTEXT, Link

FIND_COORDINATOR = 10


class RecordingTransport:
    """A transport that connects to this machine for any host, and records the connections."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    async def open(self, host: str, port: int) -> Link:
        self.opened.append((host, port))
        return await PLAINTEXT.open("127.0.0.1", port)


def find_coordinator(correlation_id: int = 7) -> bytes:
    return encode_request(correlation_id, "test", new_request(FIND_COORDINATOR, 2, {"key": "group"}))


async def ask_raw(client: Client, frame: bytes) -> bytes | None:
    await client.send(frame)
    return await client.receive()


def target_of(answer: bytes | None) -> int:
    assert answer is not None
    return int(answer[4:].split(b" ")[2])


async def advertised(cluster: Cluster, version: int = 3) -> dict[int, tuple[int, int]]:
    client = await cluster.connect()
    entity = await client.ask(18, version)
    return {row.api_key: (row.min_version, row.max_version) for row in entity.api_keys}


# -- ApiVersions -------------------------------------------------------------------------------------------------------


async def test_before_any_broker_has_answered_the_versions_of_the_protocol_release_are_advertised() -> None:
    async with running(shared=SharedVersions(lambda: Release(2, 8))) as cluster:
        ranges = await advertised(cluster)
        assert (ranges[56], ranges[67]) == ((0, 3), (0, 0)), "the versions of native APIs do not depend on brokers"
        assert ranges[FIND_COORDINATOR] == (0, 3)
        assert ranges[3] == (0, 11), "auto-creation goes to a broker, so Metadata has the versions of brokers"


async def test_without_live_brokers_the_last_versions_are_advertised_and_relayed_requests_disconnect() -> None:
    """A client without FindCoordinator gives up for good. A client that loses its connection retries."""
    async with running(brokers=2) as cluster:
        before = await advertised(cluster)
        client = await cluster.connect()

        cluster.set_live()

        assert await advertised(cluster) == before
        assert await ask_raw(client, find_coordinator()) is None


async def test_advertised_versions_are_kept_across_a_restart(tmp_path: Path) -> None:
    async with running(brokers=1, shared=SharedVersions(folder=tmp_path)) as cluster:
        before = await advertised(cluster)

    async with running(shared=SharedVersions(lambda: Release(2, 6), tmp_path)) as cluster:
        assert await advertised(cluster) == before


async def test_kept_versions_of_another_cluster_are_not_advertised(tmp_path: Path) -> None:
    elsewhere = new_snapshot()
    elsewhere.cluster_id = "another"
    async with running(elsewhere, brokers=1, shared=SharedVersions(folder=tmp_path)) as cluster:
        assert (await advertised(cluster))[FIND_COORDINATOR] == BROKER_RANGES[FIND_COORDINATOR]

    async with running(shared=SharedVersions(lambda: Release(2, 6), tmp_path)) as cluster:
        assert (await advertised(cluster))[FIND_COORDINATOR] == ranges_of(Release(2, 6))[FIND_COORDINATOR]


async def test_apis_of_every_live_broker_are_advertised_in_the_shared_versions() -> None:
    async with running(brokers=1) as cluster:
        older = {key: versions for key, versions in BROKER_RANGES.items() if key != 0}
        await cluster.add_broker(2, {**older, FIND_COORDINATOR: (1, 4), 3: (0, 9)})
        ranges = await advertised(cluster)
        assert ranges[FIND_COORDINATOR] == (1, 4)
        assert 0 not in ranges
        assert ranges[3] == (0, 9), "auto-creation goes to a broker, so Metadata has the versions of brokers"


async def test_requests_of_controllers_to_brokers_are_not_advertised() -> None:
    async with running(brokers=1) as cluster:
        assert not {4, 5, 6, 17, 36} & (await advertised(cluster)).keys()


async def test_controller_apis_are_advertised_in_the_versions_of_controllerd() -> None:
    async with running(brokers=1) as cluster:
        ranges = await advertised(cluster)
        assert {key: ranges[key] for key in (19, 20, 37, 51)} == {19: (0, 7), 20: (0, 6), 37: (0, 3), 51: (0, 0)}


@pytest.mark.parametrize("version", [5, 99, 32767])
async def test_an_unknown_version_is_refused_in_version_0_with_the_served_range(version: int) -> None:
    async with running() as cluster:
        client = await cluster.connect()
        answer = await ask_raw(client, (18).to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\x09garbage")
        assert answer == bytes.fromhex("00000009002300000001001200000004")
        assert (await client.ask(18, 4)).error_code == KafkaError.NONE, "the connection stays open"


async def test_a_client_software_name_must_be_legal() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        entity = await client.ask(18, 3, client_software_name="-bad-", client_software_version="1")
        assert entity.error_code == KafkaError.INVALID_REQUEST


async def test_a_silent_broker_delays_an_answer_for_a_bounded_time_and_is_left_out() -> None:
    async with running(brokers=1) as cluster:
        (await cluster.add_broker(2)).is_hanging = True
        async with asyncio.timeout(3):
            assert FIND_COORDINATOR in await advertised(cluster)


async def test_a_silent_broker_delays_no_second_answer_while_another_is_known() -> None:
    async with running(brokers=1) as cluster:
        (await cluster.add_broker(2)).is_hanging = True
        versions = BrokerVersions(cluster.snapshot, ask_s=60.0, patience_s=0.2)
        assert (await versions.known("PLAINTEXT")).keys() == {1}
        with Turns() as turns:
            assert (await versions.known("PLAINTEXT")).keys() == {1}
        assert turns.count == 0, "it did not wait"
        await versions.close()


async def test_a_broker_with_a_new_epoch_is_asked_again() -> None:
    async with running(brokers=1) as cluster:
        await advertised(cluster)
        cluster.brokers[1].ranges = {18: (0, 4)}
        assert FIND_COORDINATOR in await advertised(cluster)
        cluster.set_live(1, epoch=200)
        assert FIND_COORDINATOR not in await advertised(cluster)


async def test_a_broker_whose_socket_is_not_open_yet_is_asked_again_later() -> None:
    async with running(brokers=1) as cluster:
        stub = cluster.brokers[1]
        open_endpoint, stub.endpoint = stub.endpoint, stub.endpoint._replace(port=1)
        cluster.set_live(1)
        versions = BrokerVersions(cluster.snapshot, retry_s=0.0)
        assert await versions.known("PLAINTEXT") == {}
        stub.endpoint = open_endpoint
        cluster.set_live(1)
        assert 1 in await versions.known("PLAINTEXT")
        await versions.close()


# -- the relay ---------------------------------------------------------------------------------------------------------


async def test_a_frame_reaches_a_broker_unchanged_and_so_does_the_answer() -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        frame = find_coordinator()
        answer = await ask_raw(client, frame)
        assert cluster.brokers[1].frames == [frame]
        assert answer == frame[4:8] + b"answer of 1 to " + frame


async def test_a_client_connection_keeps_its_broker_and_another_gets_another() -> None:
    async with running(brokers=2) as cluster:
        one, other = await cluster.connect(), await cluster.connect()
        first = {target_of(await ask_raw(one, find_coordinator(i))) for i in range(4)}
        second = {target_of(await ask_raw(other, find_coordinator(i))) for i in range(4)}
        assert len(first) == len(second) == 1
        assert first != second


async def test_brokers_are_reached_through_the_transport_alone() -> None:
    transport = RecordingTransport()
    async with running(brokers=1, transport=transport) as cluster:
        cluster.brokers[1].settings = {"num.partitions": ("1", 5)}
        broker = cluster.brokers[1].endpoint.port
        cluster.set_live()
        cluster.snapshot.brokers = {
            BrokerId(1): Broker(BrokerId(1), 100, (Endpoint("PLAINTEXT", "only.the.transport.knows", broker),))
        }
        client = await cluster.connect()
        await client.ask(18, 3)  # the versions of brokers, and the relay
        assert target_of(await ask_raw(client, find_coordinator())) == 1
        assert transport.opened == 2 * [("only.the.transport.knows", broker)]


async def test_pipelined_requests_are_handled_one_at_a_time_and_in_order() -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        for i in range(5):
            await client.send(find_coordinator(i))
        assert [int.from_bytes((await client.receive() or b"")[:4]) for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_the_client_is_disconnected_when_its_broker_fails() -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        await ask_raw(client, find_coordinator())
        await cluster.brokers[1].close()
        assert await ask_raw(client, find_coordinator()) is None
        assert cluster.server.stats().hang_ups == {"relay target lost": 1}


async def test_the_client_is_disconnected_when_its_broker_fails_during_a_request() -> None:
    async with running(brokers=1) as cluster:
        cluster.brokers[1].is_silent = True
        client = await cluster.connect()
        await client.send(find_coordinator())
        await until(lambda: cluster.brokers[1].frames)
        await cluster.brokers[1].close()
        assert await client.receive() is None


async def test_an_idle_connection_that_the_broker_closed_is_opened_again() -> None:
    async with running(brokers=1) as cluster:
        versions = BrokerVersions(cluster.snapshot)
        relay = Relay("PLAINTEXT", cluster.snapshot, versions, ServerLimits(), 0)
        frame = find_coordinator()
        request = Request(peek_request(frame), frame)
        await relay.forward(request)
        for writer in cluster.brokers[1].connections:
            writer.transport.abort()
        target = relay._target
        assert target is not None
        await until(lambda: not target.is_open)
        assert target_of(await relay.forward(request)) == 1
        relay.close()


async def test_an_idle_connection_that_the_broker_reset_is_opened_again() -> None:
    async with running(brokers=1) as cluster:
        versions = BrokerVersions(cluster.snapshot)
        relay = Relay("PLAINTEXT", cluster.snapshot, versions, ServerLimits(), 0)
        frame = find_coordinator()
        request = Request(peek_request(frame), frame)
        await relay.forward(request)
        target = relay._target
        assert target is not None
        writer = cluster.brokers[1].connections[-1]
        linger = struct.pack("ii", 1, 0)  # closing sends a reset instead of the end of the stream
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await until(lambda: not target.is_open)
        assert target_of(await relay.forward(request)) == 1
        relay.close()


async def test_a_broker_that_accepts_no_connection_is_skipped() -> None:
    async with running(brokers=2) as cluster:
        await advertised(cluster)
        await cluster.brokers[1].close()
        client = await cluster.connect()
        assert {target_of(await ask_raw(client, find_coordinator())) for _ in range(2)} == {2}


async def test_a_broker_that_does_not_answer_in_time_disconnects_only_its_client() -> None:
    async with running(brokers=1, limits=ServerLimits(relay_s=0.1)) as cluster:
        cluster.brokers[1].is_silent = True
        client, other = await cluster.connect(), await cluster.connect()
        assert await ask_raw(client, find_coordinator()) is None
        assert (await other.ask(18, 4)).error_code == KafkaError.NONE


async def test_a_client_is_disconnected_when_there_is_no_broker() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        assert await ask_raw(client, find_coordinator()) is None


@pytest.mark.parametrize("api_key", [4, 5, 6, 17, 36, 58])
async def test_an_api_that_is_never_relayed_closes_the_connection(api_key: int) -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        assert await ask_raw(client, api_key.to_bytes(2, "big") + bytes(20)) is None
        assert cluster.brokers[1].frames == []


class NoRelay:
    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return operation is not AclOperation.RELAY


async def test_with_an_authorizer_that_forbids_it_no_request_is_relayed_or_advertised() -> None:
    async with running(brokers=1, authorizer=NoRelay()) as cluster:
        client = await cluster.connect()
        assert FIND_COORDINATOR not in await advertised(cluster)
        assert await ask_raw(client, find_coordinator()) is None
        assert cluster.brokers[1].frames == []


# -- native APIs that may go to a broker -------------------------------------------------------------------------------


def metadata(name: str, *, create: bool) -> bytes:
    values = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": create}
    return encode_request(1, "test", new_request(3, 12, values))


async def test_metadata_with_auto_creation_is_relayed_to_a_broker() -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        assert target_of(await ask_raw(client, metadata("new", create=True))) == 1


async def test_metadata_of_known_topics_is_answered_here() -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        await ask_raw(client, metadata("orders", create=True))
        await ask_raw(client, metadata("new", create=False))
        assert cluster.brokers[1].frames == []


async def test_without_a_broker_a_missing_topic_is_unknown() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, 12, topics=[{"name": "new", "topic_id": None}], allow_auto_topic_creation=True)
        assert entity.topics[0].error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("api_key", "version"), [(3, 12), (60, 1)])
async def test_a_standby_relays_metadata_to_a_broker(api_key: int, version: int) -> None:
    async with running(new_snapshot(Role.STANDBY), brokers=1) as cluster:
        client = await cluster.connect()
        frame = encode_request(1, "test", new_request(api_key, version, {}))
        assert target_of(await ask_raw(client, frame)) == 1


@pytest.mark.parametrize(("api_key", "version"), [(3, 12), (60, 1)])
async def test_a_standby_that_knows_no_broker_closes_the_connection(api_key: int, version: int) -> None:
    async with running(new_snapshot(Role.STANDBY)) as cluster:
        client = await cluster.connect()
        frame = encode_request(1, "test", new_request(api_key, version, {}))
        assert await ask_raw(client, frame) is None


@pytest.mark.parametrize(("api_key", "version"), [(32, 4), (33, 2), (44, 1)])
async def test_configuration_of_other_resources_is_relayed_to_a_broker(api_key: int, version: int) -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        topic = {"resource_type": 2, "resource_name": "orders", "configs": (), "configuration_keys": None}
        frame = encode_request(1, "test", new_request(api_key, version, {"resources": [topic]}))
        assert target_of(await ask_raw(client, frame)) == 1


@pytest.mark.parametrize(("api_key", "version"), [(32, 4), (33, 2), (44, 1)])
@pytest.mark.parametrize("kind", [4, 8])
async def test_configuration_of_this_node_is_accepted_and_empty(api_key: int, version: int, kind: int) -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        own = {"resource_type": kind, "resource_name": str(NODE_ID), "configs": (), "configuration_keys": None}
        entity = await client.ask(api_key, version, resources=[own])
        [row] = entity.results if api_key == 32 else entity.responses
        assert (row.error_code, row.resource_type, row.resource_name) == (KafkaError.NONE, kind, str(NODE_ID))


async def test_init_producer_id_of_a_transaction_is_relayed_to_a_broker() -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        frame = encode_request(1, "test", new_request(22, 4, {"transactional_id": "tx"}))
        assert target_of(await ask_raw(client, frame)) == 1
