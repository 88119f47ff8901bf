"""Metadata and DescribeCluster from the snapshot, by the rules of ZooKeeper-mode brokers."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from controllerd.api.server_settings import ServerListener
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint, PartitionState, ReplicaAssignment, SecurityProtocol
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import DeletionView, PartitionView
from tests.api.cluster import NODE_ID, TOPIC_ID, TOPIC_UUID, new_snapshot, partition, put_topic, replicas, running
from wire.kio_codec import decode_response

EVERY_VERSION = range(13)
PLAIN, INNER = "PLAINTEXT", "INTERNAL"


def snapshot_of(*brokers: int, listeners: tuple[str, ...] = (PLAIN,)) -> ClusterSnapshot:
    snapshot = new_snapshot()
    rows = {}
    for broker in brokers:
        endpoints = tuple(Endpoint(name, f"{name.lower()}-{broker}", 9000 + broker) for name in listeners)
        rows[BrokerId(broker)] = Broker(BrokerId(broker), 100 + broker, endpoints, rack=f"rack-{broker}")
    snapshot.brokers = MappingProxyType(rows)
    return snapshot


def everything(version: int) -> dict[str, object]:
    return {"topics": () if version == 0 else None}


def by_name(*names: str, create: bool = False) -> dict[str, object]:
    return {"topics": [{"name": name, "topic_id": None} for name in names], "allow_auto_topic_creation": create}


@pytest.mark.parametrize("version", EVERY_VERSION)
async def test_every_version_has_brokers_topics_and_partitions(version: int) -> None:
    async with running(snapshot_of(1, 2)) as cluster:
        client = await cluster.connect()

        entity = await client.ask(3, version, **everything(version))

        nodes = [(node.node_id, node.host, node.port) for node in entity.brokers]
        assert nodes[:2] == [(1, "plaintext-1", 9001), (2, "plaintext-2", 9002)]
        assert nodes[2] == (NODE_ID, "127.0.0.1", cluster.server.advertised[0].port)
        [topic] = entity.topics
        assert topic.name == "orders"
        rows = [(p.error_code, p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions]
        assert rows == [(0, 0, 1, (1,), (1,)), (0, 1, 2, (2,), (2,))]


@pytest.mark.parametrize(
    ("listener", "advertised"),
    [
        (ServerListener(PLAIN, "127.0.0.1", 0), ("127.0.0.1", None)),
        (ServerListener(PLAIN, "0.0.0.0", 0, "ctl.example", 19095), ("ctl.example", 19095)),
        (ServerListener(PLAIN, "0.0.0.0", 0, "ctl.example"), ("ctl.example", None)),
    ],
    ids=["as it is bound", "behind NAT", "under another name"],
)
async def test_clients_get_the_advertised_address_and_not_the_bound_one(
    listener: ServerListener, advertised: tuple[str, int | None]
) -> None:
    async with running(listener=listener) as cluster:
        _, bound_port = cluster.server.bound[0]
        host, port = advertised
        client = await cluster.connect()

        nodes = (await client.ask(3, 12, **everything(12))).brokers
        described = (await client.ask(60, 1, endpoint_type=1)).brokers

        assert cluster.server.advertised == (Endpoint(PLAIN, host, port or bound_port),)
        assert [(node.host, node.port) for node in (*nodes, *described)] == [(host, port or bound_port)] * 2


@pytest.mark.parametrize("version", EVERY_VERSION)
async def test_each_field_appears_from_the_version_that_introduced_it(version: int) -> None:
    snapshot = snapshot_of(1, 2)
    put_topic(snapshot, "__consumer_offsets", None, partition(0, 1, 1, 2, 3, offline=(3,)))
    async with running(snapshot) as cluster:
        client = await cluster.connect()

        entity = await client.ask(3, version, **everything(version))

        orders, offsets = entity.topics
        [row] = offsets.partitions
        assert getattr(entity, "cluster_id", "the-cluster") == "the-cluster"
        assert getattr(entity, "controller_id", NODE_ID) == NODE_ID
        assert getattr(entity.brokers[0], "rack", "rack-1") == "rack-1"
        assert getattr(offsets, "is_internal", True)
        assert getattr(orders, "topic_id", TOPIC_UUID) == TOPIC_UUID
        assert getattr(offsets, "topic_id", None) is None
        assert getattr(row, "leader_epoch", 5) == 5
        assert getattr(row, "offline_replicas", (3,)) == (3,)


async def test_an_array_longer_than_one_varint_byte_is_encoded() -> None:
    snapshot = snapshot_of(1)
    members = tuple(range(1, 201))
    put_topic(snapshot, "wide", None, partition(0, 1, *members))
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        for version in (8, 12):
            entity = await client.ask(3, version, **by_name("wide"))
            assert entity.topics[0].partitions[0].replica_nodes == members


async def test_many_partitions_are_encoded_completely() -> None:
    snapshot = snapshot_of(1)
    put_topic(snapshot, "large", None, *(partition(i, 1, 1) for i in range(3_500)))
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, 12, **by_name("large"))
        assert [row.partition_index for row in entity.topics[0].partitions] == list(range(3_500))


@pytest.mark.parametrize("version", range(1, 13))
async def test_an_empty_list_of_topics_returns_no_topic(version: int) -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, version, topics=())
        assert entity.topics == ()


@pytest.mark.parametrize("version", range(4, 13))
async def test_a_missing_topic_is_unknown(version: int) -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, version, **by_name("missing"))
        assert [(t.name, t.error_code) for t in entity.topics] == [("missing", KafkaError.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_an_invalid_topic_name_is_refused() -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, 12, **by_name("a/b", ".."))
        assert {t.error_code for t in entity.topics} == {KafkaError.INVALID_TOPIC_EXCEPTION}


async def test_a_topic_can_be_asked_for_by_id() -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        known = await client.ask(3, 12, topics=[{"name": None, "topic_id": TOPIC_UUID}])
        assert [(t.name, t.error_code) for t in known.topics] == [("orders", KafkaError.NONE)]


async def test_an_unknown_topic_id_is_returned_without_a_name() -> None:
    snapshot = snapshot_of(1)
    del snapshot.names_by_id[TOPIC_ID]
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        [topic] = (await client.ask(3, 12, topics=[{"name": None, "topic_id": TOPIC_UUID}])).topics
        assert (topic.name, topic.topic_id, topic.error_code) == (None, TOPIC_UUID, KafkaError.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_before_version_12_are_an_invalid_request(version: int) -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        [topic] = (await client.ask(3, version, topics=[{"name": None, "topic_id": TOPIC_UUID}])).topics
        assert (topic.name, topic.error_code) == ("", KafkaError.INVALID_REQUEST)


@pytest.mark.parametrize("version", EVERY_VERSION)
async def test_a_partition_whose_leader_is_dead_has_none(version: int) -> None:
    async with running(snapshot_of(2)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, version, **everything(version))
        dead, alive = entity.topics[0].partitions
        assert (dead.error_code, dead.leader_id) == (KafkaError.LEADER_NOT_AVAILABLE, -1)
        assert (alive.error_code, alive.leader_id) == (KafkaError.NONE, 2)


@pytest.mark.parametrize(
    ("version", "error"), [(5, KafkaError.LEADER_NOT_AVAILABLE), (6, KafkaError.LISTENER_NOT_FOUND)]
)
async def test_a_leader_without_the_listener_is_an_error_of_the_version(version: int, error: KafkaError) -> None:
    async with running(snapshot_of(1, 2, listeners=(INNER,))) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, version, **everything(version))
        assert [node.node_id for node in entity.brokers] == [NODE_ID]
        assert {(p.error_code, p.leader_id) for p in entity.topics[0].partitions} == {(error, -1)}


async def test_version_0_leaves_out_replicas_that_its_clients_cannot_look_up() -> None:
    snapshot = snapshot_of(1)
    put_topic(snapshot, "orders", TOPIC_ID, partition(0, 1, 1, 2))
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        [row] = (await client.ask(3, 0, topics=())).topics[0].partitions
        assert (row.error_code, row.replica_nodes, row.isr_nodes) == (KafkaError.REPLICA_NOT_AVAILABLE, (1,), (1,))


async def test_a_partition_that_was_never_led_keeps_its_replicas() -> None:
    snapshot = snapshot_of(1)
    fresh = PartitionView(0, PartitionState.NEW, ReplicaAssignment(replicas(1, 2)), None, replicas(2))
    put_topic(snapshot, "fresh", None, fresh)
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        [row] = (await client.ask(3, 12, **by_name("fresh"))).topics[0].partitions
        assert (row.error_code, row.leader_id, row.leader_epoch) == (KafkaError.LEADER_NOT_AVAILABLE, -1, -1)
        assert (row.replica_nodes, row.isr_nodes) == ((1, 2), ())


async def test_authorized_operations_are_returned_only_on_request() -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        flags = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        asked = await client.ask(3, 9, **everything(9), **flags)
        unasked = await client.ask(3, 9, **everything(9))
        assert (asked.topics[0].topic_authorized_operations, asked.cluster_authorized_operations) == (3576, 8096)
        assert unasked.topics[0].topic_authorized_operations == unasked.cluster_authorized_operations == -(2**31)


async def test_the_rack_of_this_node_is_that_of_its_entry() -> None:
    snapshot = snapshot_of(1)
    snapshot.our_entry = Broker(BrokerId(NODE_ID), -1, (), rack="rack-1")
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, 12, topics=())
        assert entity.brokers[-1].rack == "rack-1"


OUR_ENTRIES = [
    Broker(BrokerId(NODE_ID), -1, (Endpoint(PLAIN, "here", 1), Endpoint(INNER, "here", 2))),
    Broker(BrokerId(NODE_ID), -1, (Endpoint(INNER, "here", 2),)),
    None,
]


@pytest.mark.parametrize("entry", OUR_ENTRIES, ids=["visible", "internal", "hidden"])
async def test_this_node_is_listed_under_the_address_of_the_request_despite_its_entry(entry: Broker | None) -> None:
    snapshot = snapshot_of(1, 2)
    snapshot.our_entry = entry
    async with running(snapshot) as cluster:
        client, port = await cluster.connect(), cluster.server.advertised[0].port

        metadata = await client.ask(3, 12, topics=())
        described = await client.ask(60, 1)

        assert [(node.node_id, node.port) for node in metadata.brokers] == [(1, 9001), (2, 9002), (NODE_ID, port)]
        assert [(node.broker_id, node.port) for node in described.brokers] == [(1, 9001), (2, 9002), (NODE_ID, port)]
        assert (metadata.controller_id, described.controller_id) == (NODE_ID, NODE_ID)


@pytest.mark.parametrize("version", [0, 1])
async def test_describe_cluster_names_the_brokers_and_the_controller(version: int) -> None:
    async with running(snapshot_of(1, 2)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(60, version, include_cluster_authorized_operations=True)
        assert (entity.cluster_id, entity.controller_id) == ("the-cluster", NODE_ID)
        assert [node.broker_id for node in entity.brokers] == [1, 2, NODE_ID]
        assert entity.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("kind", "error"), [(2, KafkaError.MISMATCHED_ENDPOINT_TYPE), (3, KafkaError.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_describe_cluster_of_another_kind_of_endpoint_is_refused(kind: int, error: KafkaError) -> None:
    async with running(snapshot_of(1)) as cluster:
        client = await cluster.connect()
        assert (await client.ask(60, 1, endpoint_type=kind)).error_code == error


async def test_a_listener_that_is_not_plaintext_is_still_listed() -> None:
    snapshot = snapshot_of(1)
    broker = snapshot.brokers[BrokerId(1)]
    secure = Endpoint(PLAIN, "secure", 9093, SecurityProtocol.SSL)
    snapshot.brokers = MappingProxyType({broker.id: replace(broker, endpoints=(secure,))})
    async with running(snapshot) as cluster:
        client = await cluster.connect()
        entity = await client.ask(3, 12, topics=())
        assert entity.brokers[0].host == "secure"


@pytest.mark.parametrize(("version", "flags"), [(9, "010001"), (10, "010001"), (11, "0101"), (12, "0101")])
async def test_all_topics_as_librdkafka_misspells_them_are_understood(version: int, flags: str) -> None:
    """librdkafka issue 5049: the null list of topics takes four bytes where the protocol has one."""
    async with running(snapshot_of(1, 2)) as cluster:
        client = await cluster.connect()
        header = (3).to_bytes(2) + version.to_bytes(2) + (7).to_bytes(4) + b"\xff\xff\x00"

        await client.send(header + bytes(4) + bytes.fromhex(flags) + b"\x00")

        answer = await client.receive()
        assert answer is not None
        entity: Any = decode_response(3, version, answer)[1]
        [topic] = entity.topics
        assert topic.topic_authorized_operations == 3576


# -- topics that are being deleted -------------------------------------------------------------------------------------


def snapshot_with_deletion() -> ClusterSnapshot:
    """A snapshot in which the topic orders is being deleted, and the topic others is not."""
    snapshot = snapshot_of(1, 2)
    snapshot.topics["orders"] = replace(snapshot.topics["orders"], deletion=DeletionView(False, None, ()))
    put_topic(snapshot, "others", None, partition(0, 1, 1))
    return snapshot


@pytest.mark.parametrize("version", EVERY_VERSION)
async def test_a_topic_that_is_being_deleted_is_not_listed(version: int) -> None:
    async with running(snapshot_with_deletion()) as cluster:
        client = await cluster.connect()

        entity = await client.ask(3, version, **everything(version))

        assert [topic.name for topic in entity.topics] == ["others"]


async def test_a_topic_that_is_being_deleted_is_unknown_and_not_auto_created() -> None:
    async with running(snapshot_with_deletion()) as cluster:
        client = await cluster.connect()

        entity = await client.ask(3, 9, **by_name("orders", create=True))

        [topic] = entity.topics
        assert topic.error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_id_of_a_topic_that_is_being_deleted_is_unknown() -> None:
    async with running(snapshot_with_deletion()) as cluster:
        client = await cluster.connect()

        entity = await client.ask(3, 12, topics=[{"name": None, "topic_id": TOPIC_UUID}])

        [topic] = entity.topics
        assert topic.error_code == KafkaError.UNKNOWN_TOPIC_ID


async def test_a_topic_whose_deletion_waits_for_a_reassignment_is_still_listed() -> None:
    snapshot = snapshot_of(1, 2)
    waiting = DeletionView(False, "waits for the reassignment of orders-0", (), is_hidden=False)
    snapshot.topics["orders"] = replace(snapshot.topics["orders"], deletion=waiting)
    async with running(snapshot) as cluster:
        client = await cluster.connect()

        entity = await client.ask(3, 9, **everything(9))

        assert [topic.name for topic in entity.topics] == ["orders"]
