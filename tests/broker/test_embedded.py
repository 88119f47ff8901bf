"""A whole broker over real connections: ZooKeeper is real, the controller is a stub, the bytes are Kafka's."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.static.primitive import i32Timedelta

from broker.embedded import EmbeddedBroker
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import StopReplicaPartition
from tests.broker.cluster import EmbeddedCluster, cluster, eventually, settings
from tests.broker.samples import T0, T_ID
from tests.broker.stub_controller import StubController, stub_controller
from tests.broker.zookeeper import Registrations
from tests.zk.proxy import ZooKeeperProxy
from wire.connection import KafkaConnection
from wire.errors import PeerClosed
from wire.kio_codec import decode_entity, response_type
from wire.metadata import fetch_metadata
from wire.versions import ApiKey

pytestmark = pytest.mark.zookeeper

T1 = TopicPartition("t", 1)
NO_TIMEOUT = {"transaction_timeout": i32Timedelta.parse(timedelta(0))}
NO_OPERATIONS = {"include_topic_authorized_operations": False, "include_cluster_authorized_operations": False}


@pytest.fixture
async def three(connect: str, tmp_path: Path, controller: StubController) -> AsyncIterator[EmbeddedCluster]:
    """Three brokers that know of nothing yet."""
    async with cluster(connect, tmp_path, controller, 1, 2, 3) as running:
        yield running


# -- registration ------------------------------------------------------------------------------------------------------


async def test_a_broker_registers_as_kafka_does(connect: str, tmp_path: Path, registrations: Registrations) -> None:
    async with EmbeddedBroker(settings(connect, tmp_path, rack="r1")) as broker:
        found = await registrations.broker(1)

        assert found is not None
        assert (found.endpoints, found.rack, found.epoch) == ((broker.endpoint,), "r1", broker.epoch)


async def test_a_closed_broker_is_gone_at_once(connect: str, tmp_path: Path, registrations: Registrations) -> None:
    async with EmbeddedBroker(settings(connect, tmp_path)):
        pass

    assert await registrations.broker(1) is None


async def test_all_brokers_find_the_same_cluster_id(three: EmbeddedCluster) -> None:
    found = [await fetch_metadata("127.0.0.1", broker.endpoint.port) for broker in three.brokers.values()]

    assert len({metadata.cluster_id for metadata in found}) == 1


async def test_after_its_session_was_lost_a_broker_registers_under_a_higher_epoch(
    server_address: str, connect: str, tmp_path: Path, registrations: Registrations
) -> None:
    async with ZooKeeperProxy(server_address) as proxy:
        chroot = connect.removeprefix(server_address)
        async with EmbeddedBroker(settings(proxy.connect + chroot, tmp_path, session_timeout_ms=1_000)) as broker:
            before = broker.epoch
            proxy.is_open = False
            proxy.cut()
            await registrations.until(1, lambda found: found is None)
            proxy.is_open = True

            found = await registrations.until(1, lambda found: found is not None)
            await eventually(lambda: broker.epoch > before)

            assert found is not None
            assert broker.epoch == found.epoch


# -- requests of clients -----------------------------------------------------------------------------------------------


async def test_clients_receive_the_metadata_that_the_controller_sent(three: EmbeddedCluster) -> None:
    three.controller.topic_ids["t"] = T_ID
    three.controller.place("t", 0, (2, 3, 1), isr=(3, 2))
    await three.controller.send_to_all()

    found = await fetch_metadata("127.0.0.1", three.brokers[1].endpoint.port)

    partition = found.topics["t"].partitions[0]
    assert set(found.brokers) == {1, 2, 3, three.controller.id}
    assert (found.controller_id, found.topics["t"].topic_id) == (three.controller.id, T_ID)
    assert (partition.leader, partition.replicas, partition.isr) == (3, (2, 3, 1), (3, 2))


async def test_a_partition_without_live_leader_has_no_leader_for_clients(three: EmbeddedCluster) -> None:
    three.controller.place("t", 0, (2, 3, 1), isr=(2,))
    del three.controller.brokers[2]
    await three.controller.send_to_all()

    found = await fetch_metadata("127.0.0.1", three.brokers[1].endpoint.port)

    partition = found.topics["t"].partitions[0]
    assert (partition.error, partition.leader) == (KafkaError.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", range(13))
async def test_every_version_of_metadata_names_the_leader(three: EmbeddedCluster, version: int) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    await three.controller.send_to_all()

    by_name = [{"name": "t", "topic_id": None}]
    answer = await three.ask(1, ApiKey.METADATA, version, topics=by_name, **NO_OPERATIONS)

    (topic,) = answer.topics
    assert [partition.leader_id for partition in topic.partitions] == [1]


async def test_an_unknown_topic_is_not_created(three: EmbeddedCluster) -> None:
    await three.controller.send_to_all()

    found = await fetch_metadata("127.0.0.1", three.brokers[1].endpoint.port, ["nowhere"])

    assert found.topics["nowhere"].error == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_is_found_by_its_id(three: EmbeddedCluster) -> None:
    three.controller.topic_ids["t"] = T_ID
    three.controller.place("t", 0, (1, 2, 3))
    await three.controller.send_to_all()
    known = await three.ask(1, ApiKey.METADATA, 12, topics=None, **NO_OPERATIONS)

    by_id = [{"name": None, "topic_id": known.topics[0].topic_id}]
    found = await three.ask(1, ApiKey.METADATA, 12, topics=by_id, **NO_OPERATIONS)

    assert [topic.name for topic in found.topics] == ["t"]


@pytest.mark.parametrize("version", [0, 1])
async def test_the_cluster_is_described(three: EmbeddedCluster, version: int) -> None:
    await three.controller.send_to_all()

    found = await three.ask(2, ApiKey.DESCRIBE_CLUSTER, version, **NO_OPERATIONS)

    assert {row.broker_id for row in found.brokers} == {1, 2, 3, three.controller.id}


@pytest.mark.parametrize("version", range(5))
async def test_every_version_of_api_versions_is_answered(three: EmbeddedCluster, version: int) -> None:
    names = {"client_software_name": "test", "client_software_version": "1"}

    answer = await three.ask(1, ApiKey.API_VERSIONS, version, **names)

    assert (ApiKey.UPDATE_METADATA, 0, 8) in {(r.api_key, r.min_version, r.max_version) for r in answer.api_keys}


async def test_an_unknown_version_of_api_versions_is_answered_with_the_known_ones(three: EmbeddedCluster) -> None:
    endpoint = three.brokers[1].endpoint
    connection = await KafkaConnection.connect(endpoint.host, endpoint.port, "test")

    body = await connection.request(ApiKey.API_VERSIONS, 9, b"what this holds nobody knows")
    await connection.close()

    answer: Any = decode_entity(response_type(ApiKey.API_VERSIONS, 0), body)
    assert answer.error_code.value == KafkaError.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in answer.api_keys] == [(ApiKey.API_VERSIONS, 4)]


async def test_an_unknown_api_closes_the_connection(three: EmbeddedCluster) -> None:
    endpoint = three.brokers[1].endpoint
    connection = await KafkaConnection.connect(endpoint.host, endpoint.port, "test")

    with pytest.raises(PeerClosed):
        await connection.request(ApiKey.CREATE_TOPICS, 7, b"")
    await connection.close()


# -- control requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
async def test_every_version_of_leader_and_isr_is_obeyed(three: EmbeddedCluster, version: int) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    for broker in (1, 2):
        await three.controller.send(broker, three.controller.update_metadata(broker))

        answer = await three.controller.send(broker, three.controller.leader_and_isr(broker), version)

        assert {answer.error, *answer.partition_errors.values()} == {KafkaError.NONE}
    assert three.brokers[2].state.replicas.leaders() == {1}


@pytest.mark.parametrize("version", range(9))
async def test_every_version_of_update_metadata_is_obeyed(three: EmbeddedCluster, version: int) -> None:
    three.controller.place("t", 0, (1, 2, 3))

    answer = await three.controller.send(1, three.controller.update_metadata(1), version)

    assert answer.error is KafkaError.NONE
    assert set(three.brokers[1].state.cache.topics) == {"t"}


@pytest.mark.parametrize("version", range(5))
async def test_every_version_of_stop_replica_is_obeyed(three: EmbeddedCluster, version: int) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    await three.controller.send_to_all()

    stop = three.controller.stop_replica(2, {T0: StopReplicaPartition(-2, delete=True)})
    answer = await three.controller.send(2, stop, version)

    assert answer.error is KafkaError.NONE
    assert three.brokers[2].state.replicas.partitions == {}


async def test_a_request_for_an_earlier_broker_epoch_is_refused(three: EmbeddedCluster) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    stale = three.controller.brokers[1]
    three.controller.brokers[1] = type(stale)(stale.id, stale.epoch - 1, stale.endpoints)

    update = await three.controller.send(1, three.controller.update_metadata(1))
    lead = await three.controller.send(1, three.controller.leader_and_isr(1))
    stop = await three.controller.send(1, three.controller.stop_replica(1, {T0: StopReplicaPartition(0, delete=False)}))

    assert [answer.error for answer in (update, lead, stop)] == [KafkaError.STALE_BROKER_EPOCH] * 3
    assert lead.partition_errors == {T0: KafkaError.STALE_BROKER_EPOCH}


async def test_a_deposed_controller_is_refused(three: EmbeddedCluster) -> None:
    three.controller.epoch = 5
    await three.controller.send_to_all()
    three.controller.epoch = 4

    answer = await three.controller.send(1, three.controller.update_metadata(1))

    assert answer.error is KafkaError.STALE_CONTROLLER_EPOCH


# -- replication and ISR -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topic_id", "version"), [(T_ID, 3), (None, 1)])
async def test_a_follower_that_fetches_joins_the_isr(
    three: EmbeddedCluster, topic_id: str | None, version: int
) -> None:
    if topic_id is not None:
        three.controller.topic_ids["t"] = topic_id
    three.controller.place("t", 0, (1, 2, 3), isr=(1,))

    await three.controller.send_to_all()

    await three.controller.until(lambda: set(three.controller.states[T0].isr) == {1, 2, 3})
    header, request = three.controller.of(ApiKey.ALTER_PARTITION)[0]
    assert (header.version, request.broker_epoch) == (version, three.brokers[1].epoch)


async def test_a_follower_that_died_leaves_the_isr(three: EmbeddedCluster) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    three.controller.place("t", 1, (1, 3, 2))
    await three.controller.send_to_all()

    await three.brokers[2].close()

    await three.controller.until(lambda: {three.controller.states[tp].isr for tp in (T0, T1)} == {(1, 3)})


async def test_followers_that_fetch_stay_in_the_isr(three: EmbeddedCluster) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    three.controller.place("t", 1, (1, 2), isr=(1, 2))
    await three.controller.send_to_all()

    await three.brokers[3].close()
    await three.controller.until(lambda: three.controller.states[T0].isr == (1, 2))

    assert three.controller.states[T1].isr == (1, 2)


async def test_one_request_carries_the_isr_changes_of_all_partitions(three: EmbeddedCluster) -> None:
    for index in range(20):
        three.controller.place("t", index, (1, 2, 3))
    await three.controller.send_to_all()

    await three.brokers[2].close()

    await three.controller.until(lambda: all(state.isr == (1, 3) for state in three.controller.states.values()))
    assert len(three.controller.of(ApiKey.ALTER_PARTITION)) < 20


async def test_isr_changes_go_to_the_controller_of_the_last_update_metadata(three: EmbeddedCluster) -> None:
    three.controller.place("t", 0, (1, 2), isr=(1,))
    three.controller.active = False
    async with stub_controller(2_000_000_001) as successor:
        successor.brokers, successor.epoch = three.controller.brokers, 2
        successor.states, successor.replicas = three.controller.states, three.controller.replicas
        await three.controller.send_to_all()
        await three.controller.until(lambda: bool(three.controller.of(ApiKey.ALTER_PARTITION)))

        await successor.send(1, successor.update_metadata(1))

        await successor.until(lambda: successor.states[T0].isr == (1, 2))


async def test_a_refused_request_is_sent_again(three: EmbeddedCluster) -> None:
    three.controller.refusals = [(ApiKey.ALTER_PARTITION, KafkaError.STALE_BROKER_EPOCH)]
    three.controller.place("t", 0, (1, 2), isr=(1,))

    await three.controller.send_to_all()

    await three.controller.until(lambda: not three.controller.refusals)
    await eventually(lambda: len(three.controller.of(ApiKey.ALTER_PARTITION)) >= 2)


async def test_a_leader_that_moves_is_followed_to_its_new_place(three: EmbeddedCluster) -> None:
    three.controller.place("t", 0, (1, 2, 3))
    await three.controller.send_to_all()
    await three.brokers[1].close()
    del three.controller.brokers[1]
    tp = T0
    isr = (BrokerId(2),)
    three.controller.states[tp] = three.controller.states[tp]._replace(leader=BrokerId(2), leader_epoch=1, isr=isr)

    await three.controller.send_to_all()

    await three.controller.until(lambda: three.controller.states[tp].isr == (2, 3))


# -- controlled shutdown, producer ids ---------------------------------------------------------------------------------


async def test_a_broker_leaves_when_the_controller_answers_that_it_leads_nothing(
    three: EmbeddedCluster, registrations: Registrations
) -> None:
    three.controller.remaining = [(T0,), ()]
    await three.controller.send_to_all()
    epoch = three.brokers[1].epoch

    agreed = await three.brokers[1].shut_down()

    asked = [
        (header.version, request.broker_epoch) for header, request in three.controller.of(ApiKey.CONTROLLED_SHUTDOWN)
    ]
    assert (agreed, asked) == (True, [(3, epoch), (3, epoch)])
    assert await registrations.broker(1) is None


async def test_a_controlled_shutdown_gives_up_after_three_attempts(three: EmbeddedCluster) -> None:
    three.controller.remaining = [(T0,)] * 5
    await three.controller.send_to_all()

    agreed = await three.brokers[1].shut_down()

    assert (agreed, len(three.controller.of(ApiKey.CONTROLLED_SHUTDOWN))) == (False, 3)


@pytest.mark.parametrize("version", range(5))
async def test_producer_ids_come_from_blocks_of_the_controller(three: EmbeddedCluster, version: int) -> None:
    await three.controller.send_to_all()
    taken: list[int] = []

    while len(taken) < 3:
        answer = await three.ask(1, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, **NO_TIMEOUT)
        if answer.error_code.value == KafkaError.NONE:
            taken.append(answer.producer_id)
        else:
            # The broker has no block yet, or no longer; the stub gives two ids in each.
            assert answer.error_code.value == KafkaError.COORDINATOR_LOAD_IN_PROGRESS
            await three.controller.until(lambda: three.controller.next_producer_id > len(taken))

    assert taken == [0, 1, 2]


async def test_a_transaction_finds_no_coordinator(three: EmbeddedCluster) -> None:
    answer = await three.ask(1, ApiKey.INIT_PRODUCER_ID, 4, transactional_id="mine", **NO_TIMEOUT)

    assert answer.error_code.value == KafkaError.COORDINATOR_NOT_AVAILABLE
