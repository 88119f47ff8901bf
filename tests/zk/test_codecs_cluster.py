"""Znodes of brokers, of the cluster as a whole, of requests and of configs."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol, TopicPartition
from controllerd.errors import BadZnode, NewerZnode
from controllerd.zk import codecs
from controllerd.zk.codecs import ControllerZnode, FeatureZnode, FinalizedFeature, ProducerIdBlockZnode

ONE = BrokerId(1)
PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


# -- brokers -----------------------------------------------------------------------------------------------------------

V1: dict[str, Any] = {"version": 1, "host": "h1", "port": 9092, "jmx_port": -1, "timestamp": "0"}
V2 = V1 | {"version": 2, "endpoints": ["PLAINTEXT://h1:9092", "SSL://h1:9093"]}
V3 = V2 | {"version": 3, "rack": "a"}
V4 = V3 | {
    "version": 4,
    "endpoints": ["INTERNAL://h1:9092", "CLIENTS://[::1]:9093"],
    "listener_security_protocol_map": {"INTERNAL": "PLAINTEXT", "CLIENTS": "SSL"},
}
V5 = V4 | {"version": 5, "features": {"metadata": {"min_version": 1, "max_version": 3}}}

BY_PROTOCOL = (Endpoint("PLAINTEXT", "h1", 9092), Endpoint("SSL", "h1", 9093, SSL))
BY_NAME = (Endpoint("INTERNAL", "h1", 9092), Endpoint("CLIENTS", "::1", 9093, SSL))
BROKERS = [
    pytest.param(V1, Broker(ONE, 55, BY_PROTOCOL[:1]), id="format 1"),
    pytest.param(V2, Broker(ONE, 55, BY_PROTOCOL), id="format 2"),
    pytest.param(V3, Broker(ONE, 55, BY_PROTOCOL, "a"), id="format 3"),
    pytest.param(V4, Broker(ONE, 55, BY_NAME, "a"), id="format 4"),
    pytest.param(V5, Broker(ONE, 55, BY_NAME, "a", {"metadata": (1, 3)}), id="format 5"),
]


@pytest.mark.parametrize(("document", "broker"), BROKERS)
def test_broker_of_each_format(document: dict[str, Any], broker: Broker) -> None:
    assert codecs.decode_broker(ONE, as_json(document), 55) == broker
    assert json.loads(codecs.encode_broker(broker, format_version=document["version"])) == document


def test_a_broker_without_plaintext_listener_has_no_host_of_its_own() -> None:
    document = json.loads(codecs.encode_broker(Broker(ONE, 1, (Endpoint("SSL", "h", 1, SSL),)), timestamp_ms=42))

    assert (document["host"], document["port"], document["timestamp"]) == (None, -1, "42")


def test_listener_and_protocol_names_are_upper_case() -> None:
    document = V4 | {"endpoints": ["clients://h:1"], "listener_security_protocol_map": {"CLIENTS": "ssl"}}

    assert codecs.decode_broker(ONE, as_json(document), 1).endpoints == (Endpoint("CLIENTS", "h", 1, SSL),)


def test_a_missing_rack_and_unknown_fields_are_no_errors() -> None:
    document = V5 | {"rack": None, "features": None, "novelty": 1}

    assert codecs.decode_broker(ONE, as_json(document), 55) == Broker(ONE, 55, BY_NAME)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"endpoints": ["nonsense"]}, "bad endpoint 'nonsense'"),
        ({"endpoints": ["INTERNAL://:9092"]}, "bad endpoint"),
        ({"endpoints": ["INTERNAL://h:0"]}, "bad port 0"),
        ({"endpoints": ["INTERNAL://a..b:1"]}, "is no host name"),
        ({"endpoints": ["INTERNAL://h:65536"]}, "bad port 65536"),
        ({"endpoints": ["INTERNAL://h:-1"]}, "bad endpoint"),
        ({"endpoints": []}, "no endpoints"),
        ({"endpoints": None}, "no endpoints"),
        ({"endpoints": "INTERNAL://h:1"}, r"got `str` - at `\$.endpoints`"),
        ({"endpoints": ["INTERNAL://h:1", "internal://h:2"]}, "two endpoints of one listener"),
        ({"endpoints": ["OTHER://h:1"]}, "no security protocol for listener 'OTHER'"),
        ({"listener_security_protocol_map": {"INTERNAL": "MAGIC"}}, "unknown security protocol 'MAGIC'"),
        ({"version": 0}, "format version 0 does not exist"),
        ({"version": "5"}, r"got `str` - at `\$.version`"),
        ({"features": {"f": {"min_version": 3, "max_version": 1}}}, "feature 'f' supports 3 to 1"),
        ({"features": {"f": {"min_version": 1}}}, "missing required field `max_version`"),
        ({"rack": 7}, r"got `int` - at `\$.rack`"),
    ],
)
def test_broken_broker(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadZnode, match=reason) as caught:
        codecs.decode_broker(ONE, as_json(V5 | change), 55)

    assert caught.value.path == "/brokers/ids/1"


@pytest.mark.parametrize(
    ("change", "reason"), [({"host": None}, "no host"), ({"port": 0}, "bad port 0"), ({"port": None}, "got `null`")]
)
def test_broken_broker_of_format_1(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadZnode, match=reason):
        codecs.decode_broker(ONE, as_json(V1 | change), 55)


def test_a_broker_of_a_newer_format_is_not_served() -> None:
    with pytest.raises(NewerZnode, match="format version 6 is newer than 5"):
        codecs.decode_broker(ONE, as_json(V5 | {"version": 6}), 55)


hosts = st.from_regex(r"[a-z0-9-]{1,9}(\.[a-z0-9-]{1,9}){0,2}|[0-9a-f]{1,4}::[0-9a-f]{1,4}", fullmatch=True)
endpoints = st.builds(
    Endpoint,
    st.from_regex(r"[A-Z_]{1,9}", fullmatch=True),
    hosts,
    st.integers(1, 65535),
    st.sampled_from(SecurityProtocol),
)
ranges = st.tuples(st.integers(0, 9), st.integers(9, 32767))
brokers = st.builds(
    Broker,
    id=st.just(ONE),
    epoch=st.just(55),
    endpoints=st.lists(endpoints, min_size=1, max_size=4, unique_by=lambda endpoint: endpoint.listener).map(tuple),
    rack=st.none() | st.text(),
    features=st.dictionaries(st.text(), ranges, max_size=2),
)


@given(brokers)
def test_a_broker_survives_writing_and_reading(broker: Broker) -> None:
    assert codecs.decode_broker(ONE, codecs.encode_broker(broker), 55) == broker


# -- controller and cluster --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "controller"),
    [
        ({"version": 1, "brokerid": 3, "timestamp": "1700000000000"}, ControllerZnode(3, 1_700_000_000_000)),
        (
            {"version": 2, "brokerid": 3, "timestamp": "17", "kraftControllerEpoch": -1},
            ControllerZnode(3, 17),
        ),
        ({"version": 2, "brokerid": 3000, "kraftControllerEpoch": 5}, ControllerZnode(3000, None, None, 5)),
        ({"version": 9, "brokerid": 3, "timestamp": 17, "novelty": {}}, ControllerZnode(3, 17)),
        ({"brokerid": 3, "timestamp": "noon", "instance": "u-1"}, ControllerZnode(3, None, "u-1")),
    ],
)
def test_controller_of_any_age(document: dict[str, Any], controller: ControllerZnode) -> None:
    assert codecs.decode_controller(as_json(document)) == controller


def test_our_own_controller_znode() -> None:
    ours = ControllerZnode(2_000_000_001, 17, "7f0c0f4e-0000-4000-8000-000000000000")

    assert json.loads(codecs.encode_controller(ours)) == {
        "version": 2,
        "brokerid": 2_000_000_001,
        "timestamp": "17",
        "kraftControllerEpoch": -1,
        "instance": "7f0c0f4e-0000-4000-8000-000000000000",
    }
    assert codecs.decode_controller(codecs.encode_controller(ours)) == ours


@pytest.mark.parametrize("data", [None, b"", b"3", b"{}", b'{"brokerid":"3"}', b'{"brokerid":-1}', b"{"])
def test_broken_controller(data: bytes | None) -> None:
    with pytest.raises(BadZnode, match=r"^/controller: "):
        codecs.decode_controller(data)


@given(st.integers(0, 2**31 - 1))
def test_a_controller_epoch_survives_writing_and_reading(epoch: int) -> None:
    assert codecs.decode_controller_epoch(codecs.encode_controller_epoch(epoch)) == epoch


@pytest.mark.parametrize("data", [None, b"", b"x", b"-1", b"1.0", b"+1", b" 1", b"1\n", b"2147483648", b"9" * 5000])
def test_broken_controller_epoch(data: bytes | None) -> None:
    with pytest.raises(BadZnode, match=r"^/controller_epoch: "):
        codecs.decode_controller_epoch(data)


def test_the_version_of_the_cluster_id_is_text() -> None:
    data = codecs.encode_cluster_id("Zm9vYmFyYmF6cXV4cXV1eA")

    assert json.loads(data) == {"version": "1", "id": "Zm9vYmFyYmF6cXV4cXV1eA"}
    assert codecs.decode_cluster_id(data) == "Zm9vYmFyYmF6cXV4cXV1eA"


@pytest.mark.parametrize("data", [b"", b"{}", b'{"id":""}', b'{"id":5}'])
def test_broken_cluster_id(data: bytes) -> None:
    with pytest.raises(BadZnode, match=r"^/cluster/id: "):
        codecs.decode_cluster_id(data)


@pytest.mark.parametrize(
    ("document", "feature"),
    [
        ({"version": 2, "status": 1, "features": {}}, FeatureZnode(True)),
        ({"version": 2, "status": 0, "features": {}, "novelty": 1}, FeatureZnode(False, extra={"novelty": 1})),
        (
            {"version": 1, "status": 1, "features": {"f": {"min_version_level": 2, "max_version_level": 3}}},
            FeatureZnode(True, {"f": FinalizedFeature(3, 2)}, 1),
        ),
        (
            {"version": 2, "status": 1, "features": {"f": {"max_version_level": 3}}},
            FeatureZnode(True, {"f": FinalizedFeature(3)}),
        ),
    ],
)
def test_feature_znode(document: dict[str, Any], feature: FeatureZnode) -> None:
    assert codecs.decode_feature(as_json(document)) == feature
    assert json.loads(codecs.encode_feature(feature)) == document


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"version": 2, "features": {}}, "`status`"),
        ({"version": 2, "status": 1}, "`features`"),
        ({"version": 2, "status": 2, "features": {}}, "<= 1"),
        ({"version": 2, "status": 1, "features": {"f": 3}}, "got `int`"),
        ({"version": 3, "status": 1, "features": {}}, "newer than 2"),
    ],
)
def test_broken_feature_znode(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadZnode, match=f"^/feature: .*{reason}"):
        codecs.decode_feature(as_json(document))


def test_the_numbers_of_a_producer_id_block_are_text() -> None:
    data = codecs.encode_producer_id_block(ProducerIdBlockZnode(5, 1000, 1999))

    assert json.loads(data) == {"version": 1, "broker": 5, "block_start": "1000", "block_end": "1999"}
    assert codecs.decode_producer_id_block(data) == ProducerIdBlockZnode(5, 1000, 1999)


@pytest.mark.parametrize("data", [None, b""])
def test_no_producer_id_block_yet(data: bytes | None) -> None:
    assert codecs.decode_producer_id_block(data) is None


@pytest.mark.parametrize(
    "change",
    [{"block_start": 0}, {"block_start": "-1"}, {"block_end": "x"}, {"block_start": "3"}, {"block_end": "9" * 19}],
)
def test_broken_producer_id_block(change: dict[str, Any]) -> None:
    document = {"version": 1, "broker": 5, "block_start": "0", "block_end": "2"} | change

    with pytest.raises(BadZnode, match=r"^/latest_producer_id_block: "):
        codecs.decode_producer_id_block(as_json(document))


# -- requests ----------------------------------------------------------------------------------------------------------


def test_isr_change() -> None:
    data = codecs.encode_isr_change([ORDERS_0, ORDERS_1])

    assert json.loads(data)["version"] == 1
    assert codecs.decode_isr_change("isr_change_0000000001", data) == (ORDERS_0, ORDERS_1)


def test_log_dir_event() -> None:
    data = codecs.encode_log_dir_event(BrokerId(5))

    assert json.loads(data) == {"version": 1, "broker": 5, "event": 1}
    assert codecs.decode_log_dir_event("log_dir_event_0000000001", data) == 5


def test_preferred_election_names_each_partition_once() -> None:
    data = codecs.encode_preferred_election([ORDERS_1, ORDERS_0, ORDERS_1])

    assert codecs.decode_preferred_election(data) == (ORDERS_1, ORDERS_0)


def test_reassignments_keep_their_order() -> None:
    moves = {ORDERS_1: ids(2, 3), ORDERS_0: ids(1)}

    data = codecs.encode_reassignments(moves)

    assert list(codecs.decode_reassignments(data).items()) == list(moves.items())


def test_a_wrong_entry_does_not_make_the_reassignment_file_invalid() -> None:
    entries = [
        {"topic": "orders", "partition": -1, "replicas": [-5, 1, 1]},
        {"topic": "", "partition": 0, "replicas": []},
    ]

    assert codecs.decode_reassignments(as_json({"version": 1, "partitions": entries})) == {
        TopicPartition("orders", -1): ids(-5, 1, 1),
        TopicPartition("", 0): (),
    }


def test_an_unknown_field_makes_the_reassignment_file_invalid() -> None:
    entry = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": ["any"]}

    with pytest.raises(BadZnode, match="log_dirs"):
        codecs.decode_reassignments(as_json({"version": 1, "partitions": [entry]}))


DECODERS: list[tuple[str, Callable[[bytes | None], object]]] = [
    ("/isr_change_notification/c", lambda data: codecs.decode_isr_change("c", data)),
    ("/log_dir_event_notification/c", lambda data: codecs.decode_log_dir_event("c", data)),
    ("/admin/preferred_replica_election", codecs.decode_preferred_election),
    ("/admin/reassign_partitions", codecs.decode_reassignments),
]


@pytest.mark.parametrize(("path", "decode"), DECODERS)
@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b'{"version":1}', b'{"version":1,"partitions":{}}', b"\xff"])
def test_broken_request(path: str, decode: Callable[[bytes | None], object], data: bytes | None) -> None:
    with pytest.raises(BadZnode, match=f"^{path}: ") as caught:
        decode(data)

    assert not isinstance(caught.value, NewerZnode)


@pytest.mark.parametrize(("path", "decode"), DECODERS)
def test_a_request_of_a_newer_format_is_distinguished_from_a_broken_one(
    path: str, decode: Callable[[bytes | None], object]
) -> None:
    document = {"version": 2, "partitions": []} | ({"broker": 5, "event": 1} if "log_dir" in path else {})

    with pytest.raises(NewerZnode, match=f"^{path}: format version 2"):
        decode(as_json(document))


partitions = st.builds(TopicPartition, st.text(), st.integers(0, 2**31 - 1))


@given(st.lists(partitions, max_size=4))
def test_partitions_survive_writing_and_reading(found: list[TopicPartition]) -> None:
    assert codecs.decode_isr_change("c", codecs.encode_isr_change(found)) == tuple(found)


# -- configs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, b"", b'{"version":1,"config":{}}'])
def test_no_overrides(data: bytes | None) -> None:
    assert codecs.decode_config("/config/topics/orders", data) == {}


@given(st.dictionaries(st.text(), st.text()))
def test_overrides_survive_writing_and_reading(config: dict[str, str]) -> None:
    assert codecs.decode_config("/config/topics/orders", codecs.encode_config(config)) == config


def test_unknown_fields_of_a_config_can_be_kept() -> None:
    document = {"version": 1, "config": {"a": "b"}, "novelty": 1}

    extra = codecs.config_extra("/config/topics/orders", as_json(document))

    assert json.loads(codecs.encode_config({"a": "b"}, extra)) == document
    assert codecs.config_extra("/config/topics/orders", None) == {}


@pytest.mark.parametrize(
    "data", [b"{", b"{}", b'{"version":1,"config":{"a":null}}', b'{"version":1,"config":{"a":1}}', b'{"config":{}}']
)
def test_broken_config(data: bytes) -> None:
    with pytest.raises(BadZnode, match=r"^/config/topics/orders: "):
        codecs.decode_config("/config/topics/orders", data)


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "entity_type": "topics", "entity_name": "orders"},
        {"version": 2, "entity_path": "topics/orders"},
    ],
)
def test_config_change_of_each_format(document: dict[str, Any]) -> None:
    assert codecs.decode_config_change("config_change_0000000001", as_json(document)) == "topics/orders"


def test_config_changes_are_written_in_format_2() -> None:
    assert json.loads(codecs.encode_config_change("topics/orders")) == {"version": 2, "entity_path": "topics/orders"}


@pytest.mark.parametrize(
    "document", [{"version": 1}, {"version": 2}, {"version": 1, "entity_path": "a"}, {"version": 3, "entity_path": "a"}]
)
def test_broken_config_change(document: dict[str, Any]) -> None:
    with pytest.raises(BadZnode, match=r"^/config/changes/c: "):
        codecs.decode_config_change("c", as_json(document))


def test_a_deletion_marker_is_empty() -> None:
    assert codecs.DELETE_MARKER == b""
