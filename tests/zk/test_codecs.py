"""Znodes of topics and partitions: every format is read, nothing unknown is lost, and nothing broken gets through."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.model import (
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicImage,
    TopicPartition,
)
from controllerd.errors import BadZnode, NewerZnode
from controllerd.zk import codecs

TOPIC_ID = "b8tRS7h4TJ2Vt43Dp85v2A"
ORDERS_3 = TopicPartition("orders", 3)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def read(document: Any, **stat: int) -> TopicImage:
    return codecs.decode_topic("orders", as_json(document), **({"version": 7, "czxid": 70} | stat))


def rewritten(document: Any) -> Any:
    return json.loads(codecs.encode_topic(read(document)))


# -- topics ------------------------------------------------------------------------------------------------------------


def test_topic_of_format_1() -> None:
    image = read({"version": 1, "partitions": {"0": [1, 2], "1": [2, 1]}})

    assert image.assignments == {0: ReplicaAssignment(ids(1, 2)), 1: ReplicaAssignment(ids(2, 1))}
    assert (image.topic_id, image.format_version, image.znode_version, image.czxid) == (None, 1, 7, 70)


def test_topic_of_format_2() -> None:
    document = {
        "version": 2,
        "partitions": {"0": [2, 1]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {"0": [1]},
    }

    assert read(document).assignments == {0: ReplicaAssignment(ids(2, 1), ids(2), ids(1))}
    assert rewritten(document) == document


def test_topic_of_format_3() -> None:
    document = {
        "version": 3,
        "partitions": {"0": [1]},
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": TOPIC_ID,
    }

    assert read(document).topic_id == TOPIC_ID
    assert rewritten(document) == document


def test_format_3_without_id_is_kept() -> None:
    document = {"version": 3, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}

    assert rewritten(document) == document


def test_format_1_is_kept_while_no_field_needs_a_newer_one() -> None:
    document = {"version": 1, "partitions": {"0": [1]}}

    assert rewritten(document) == document


def test_a_reassignment_needs_format_2() -> None:
    image = TopicImage("orders", {0: ReplicaAssignment(ids(2, 1), ids(2))}, None, 0, format_version=1)

    assert json.loads(codecs.encode_topic(image)) == {
        "version": 2,
        "partitions": {"0": [2, 1]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {},
    }


def test_a_topic_id_needs_format_3() -> None:
    image = TopicImage("orders", {0: ReplicaAssignment(ids(1))}, TOPIC_ID, 0, format_version=1)

    assert json.loads(codecs.encode_topic(image))["version"] == 3


def test_gaps_between_partitions_and_unknown_brokers_and_empty_replicas_are_read() -> None:
    image = read({"version": 1, "partitions": {"0": [], "2": [999999]}})

    assert image.assignments == {0: ReplicaAssignment(()), 2: ReplicaAssignment(ids(999999))}


def test_flaws_of_one_partition_do_not_make_the_topic_unreadable() -> None:
    image = read({"version": 2, "partitions": {"0": [1, 1], "1": [1]}, "adding_replicas": {"1": [9]}})

    assert image.assignments == {0: ReplicaAssignment(ids(1, 1)), 1: ReplicaAssignment(ids(1), ids(9))}


def test_a_newer_format_is_read_but_never_rewritten() -> None:
    image = read({"version": 99, "partitions": {"0": [1]}, "novelty": 1})

    assert image.assignments == {0: ReplicaAssignment(ids(1))}
    with pytest.raises(NewerZnode, match="/brokers/topics/orders: format version 99"):
        codecs.encode_topic(image)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (None, "empty"),
        (b"\xff\xfe", "not JSON"),
        (b'{"version":1,"partitions":{"\xff":[1]}}', "not UTF-8"),
        (b'{"version":1,"partitions":{"0":[1', "not JSON"),
        (b'{"version":1,"partitions":{}} x', "not JSON"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"version":1}', "missing required field `partitions`"),
        (b'{"version":1,"partitions":[]}', r"got `array` - at `\$.partitions`"),
        (b'{"version":1,"partitions":null}', r"got `null` - at `\$.partitions`"),
        (b'{"version":"1","partitions":{}}', r"got `str` - at `\$.version`"),
        (b'{"version":0,"partitions":{}}', "format version 0 does not exist"),
        (b'{"version":1,"partitions":{"x":[1]}}', "'x' is not a partition"),
        (b'{"version":1,"partitions":{"-1":[1]}}', "'-1' is not a partition"),
        (b'{"version":1,"partitions":{"2147483648":[1]}}', "'2147483648' is not a partition"),
        (b'{"version":1,"partitions":{"01":[1]}}', "'01' is not a partition"),
        (b'{"version":1,"partitions":{"0":[1.0]}}', "Expected `int`, got `float`"),
        (b'{"version":1,"partitions":{"0":[true]}}', "Expected `int`, got `bool`"),
        (b'{"version":1,"partitions":{"0":["1"]}}', "Expected `int`, got `str`"),
        (b'{"version":1,"partitions":{"0":[-1]}}', "Expected `int` >= 0"),
        (b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{"1":[1]}}', "adding_replicas names the unknown"),
        (b'{"version":3,"partitions":{"0":[1]},"topic_id":"short"}', "topic id 'short'"),
        (b'{"version":3,"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAA"}', "topic id"),
    ],
)
def test_broken_topic(data: bytes | None, reason: str) -> None:
    with pytest.raises(BadZnode, match=reason) as caught:
        codecs.decode_topic("orders", data, version=0)

    assert caught.value.path == "/brokers/topics/orders"


def test_a_topic_with_an_illegal_name_is_broken() -> None:
    with pytest.raises(BadZnode, match="topic name"):
        codecs.decode_topic("or ders", as_json({"version": 1, "partitions": {}}), version=0)


broker_numbers = st.integers(0, 2**31 - 1)
replica_lists = st.lists(broker_numbers, max_size=4)


@st.composite
def topic_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Topic znodes as Kafka of any age writes them, with unknown fields."""
    version = draw(st.sampled_from([1, 2, 3]))
    partitions = draw(st.dictionaries(st.integers(0, 2**31 - 1).map(str), replica_lists, max_size=4))
    document = draw(st.dictionaries(st.text().map("x-".__add__), JSON_VALUES, max_size=3))
    document |= {"version": version, "partitions": partitions}
    if version >= 2:
        moving = (
            st.just({})
            if not partitions
            else st.dictionaries(st.sampled_from(sorted(partitions)), st.lists(broker_numbers, min_size=1, max_size=2))
        )
        document |= {"adding_replicas": draw(moving), "removing_replicas": draw(moving)}
    if version == 3 and draw(st.booleans()):
        document["topic_id"] = TOPIC_ID
    return document


@given(topic_documents())
def test_a_topic_survives_reading_and_writing_with_all_its_fields(document: dict[str, Any]) -> None:
    assert rewritten(document) == document


@given(topic_documents())
def test_a_topic_image_survives_writing_and_reading(document: dict[str, Any]) -> None:
    image = read(document)

    assert codecs.decode_topic("orders", codecs.encode_topic(image), version=7, czxid=70) == image


@given(st.binary())
def test_bytes_are_a_topic_or_a_bad_znode(data: bytes) -> None:
    assert decodes_or_is_bad(lambda: codecs.decode_topic("orders", data, version=0))


@given(JSON_VALUES)
def test_json_is_a_topic_or_a_bad_znode(value: object) -> None:
    assert decodes_or_is_bad(lambda: codecs.decode_topic("orders", as_json(value), version=0))
    assert decodes_or_is_bad(lambda: read({"version": 1, "partitions": value}))
    assert decodes_or_is_bad(lambda: read({"version": value, "partitions": {"0": value}, "topic_id": value}))


def decodes_or_is_bad(decode: Callable[[], object]) -> bool:
    try:
        decode()
    except BadZnode as error:
        return error.reason != ""
    return True


# -- partition states --------------------------------------------------------------------------------------------------

RECOVERED = LeaderAndIsr(BrokerId(1), 4, ids(1, 2), 7, 9)


def test_state_as_kafka_writes_it() -> None:
    data = b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'

    assert codecs.decode_state(ORDERS_3, data, 9) == RECOVERED


def test_the_recovery_state_is_written_only_while_recovering() -> None:
    recovering = RECOVERED._replace(recovery_state=LeaderRecoveryState.RECOVERING)

    assert "leader_recovery_state" not in json.loads(codecs.encode_state(RECOVERED))
    assert json.loads(codecs.encode_state(recovering))["leader_recovery_state"] == 1


def test_unknown_fields_of_a_state_can_be_kept() -> None:
    document = {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 7, "isr": [1, 2], "novelty": [None]}

    extra = codecs.state_extra(ORDERS_3, as_json(document))

    assert extra == {"novelty": [None]}
    assert json.loads(codecs.encode_state(RECOVERED, extra)) == document


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"leader": None}, r"got `null` - at `\$.leader`"),
        ({"leader": -2}, ">= -1"),
        ({"leader_epoch": -1}, ">= 0"),
        ({"leader_epoch": 2**31}, "<= 2147483647"),
        ({"isr": 1}, r"got `int` - at `\$.isr`"),
        ({"isr": ["1"]}, r"got `str` - at `\$.isr"),
        ({"controller_epoch": "7"}, r"got `str` - at `\$.controller_epoch`"),
        ({"leader_recovery_state": 25}, "Invalid enum value 25"),
    ],
)
def test_broken_state(document: dict[str, object], reason: str) -> None:
    whole = {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 7, "isr": [1, 2]}

    with pytest.raises(BadZnode, match=reason) as caught:
        codecs.decode_state(ORDERS_3, as_json(whole | document), 9)

    assert caught.value.path == "/brokers/topics/orders/partitions/3/state"


@pytest.mark.parametrize("key", ["leader", "leader_epoch", "controller_epoch", "isr"])
def test_state_without_a_key(key: str) -> None:
    document = {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 7, "isr": [1, 2]}
    del document[key]

    with pytest.raises(BadZnode, match=f"missing required field `{key}`"):
        codecs.decode_state(ORDERS_3, as_json(document), 9)


@pytest.mark.parametrize("data", [None, b"", b"garbage", b"\xff"])
def test_state_that_is_no_json(data: bytes | None) -> None:
    with pytest.raises(BadZnode, match=r"empty|not JSON"):
        codecs.decode_state(ORDERS_3, data, 9)


def test_a_state_of_a_newer_format_cannot_be_decoded() -> None:
    data = as_json({"version": 2, "leader": 1, "leader_epoch": 4, "controller_epoch": 7, "isr": [1]})

    with pytest.raises(NewerZnode, match="format version 2"):
        codecs.decode_state(ORDERS_3, data, 9)


epochs = st.integers(0, 2**31 - 1)
leaderships = st.builds(
    LeaderAndIsr,
    leader=st.integers(-1, 2**31 - 1).map(BrokerId),
    leader_epoch=epochs,
    isr=st.lists(broker_numbers.map(BrokerId), max_size=5).map(tuple),
    controller_epoch=epochs,
    partition_epoch=st.just(9),
    recovery_state=st.sampled_from(LeaderRecoveryState),
)


@given(leaderships)
def test_a_state_survives_writing_and_reading(leadership: LeaderAndIsr) -> None:
    assert codecs.decode_state(ORDERS_3, codecs.encode_state(leadership), 9) == leadership


@given(st.binary())
def test_bytes_are_a_state_or_a_bad_znode(data: bytes) -> None:
    assert decodes_or_is_bad(lambda: codecs.decode_state(ORDERS_3, data, 9))
