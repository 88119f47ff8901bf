"""CreateTopics and DeleteTopics read what kio writes, and what we write kio reads, in every version that we serve."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.topic_defaults import ConfigSource
from tests.wire.asking import as_request, asked, damaged, head, ms, read_back
from wire.api_topics import (
    CreatableTopic,
    CreatedTopic,
    CreateTopicsQuery,
    DeletedTopic,
    DeleteTopicsQuery,
    TopicConfig,
    WantedAssignment,
    WantedDeletion,
    decode_create_topics,
    decode_delete_topics,
    encode_create_topics,
    encode_delete_topics,
)
from wire.errors import MalformedMessage, UnknownApi
from wire.primitives import topic_id_text

CREATE, DELETE = 19, 20
CREATE_VERSIONS = range(2, 8)
DELETE_VERSIONS = range(1, 7)
WITH_COUNTS, WITH_IDS = 5, 7
UUID_ONE = UUID("12345678-1234-5678-1234-567812345678")
ID_ONE = topic_id_text(UUID_ONE.bytes) or ""

INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
NAMES = st.text(max_size=20)
TEXTS = st.none() | st.text(max_size=100)
ERRORS = st.sampled_from(KafkaError)
# All ones is a valid topic id; all zeros means that there is none.
UUIDS = st.none() | st.uuids().filter(lambda value: value.int != 0)
ASSIGNMENTS = st.builds(WantedAssignment, INT32, st.lists(INT32.map(BrokerId), max_size=4).map(tuple))
WANTED = st.builds(
    CreatableTopic,
    NAMES,
    INT32,
    INT16,
    st.lists(ASSIGNMENTS, max_size=3).map(tuple),
    st.lists(st.tuples(NAMES, TEXTS), max_size=3).map(tuple),
)
CONFIGS = st.builds(TopicConfig, NAMES, TEXTS, st.sampled_from(ConfigSource), st.booleans(), st.booleans())
CREATED = st.builds(
    CreatedTopic,
    NAMES,
    ERRORS,
    TEXTS,
    UUIDS.map(lambda value: None if value is None else topic_id_text(value.bytes)),
    INT32,
    INT16,
    st.lists(CONFIGS, max_size=3),
    ERRORS,
)


def creation(topic: CreatableTopic) -> dict[str, object]:
    """A wanted topic as kio takes it."""
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "assignments": [{"partition_index": p, "broker_ids": ids} for p, ids in topic.assignments],
        "configs": [{"name": name, "value": value} for name, value in topic.configs],
    }


def text_of(topic_id: UUID | None) -> str | None:
    return None if topic_id is None else topic_id_text(topic_id.bytes)


def created(row: Any, version: int) -> CreatedTopic:
    """A row of kio as a ``CreatedTopic``, with defaults for the fields that the version does not have."""
    known = CreatedTopic(row.name, KafkaError(row.error_code), row.error_message)
    if version >= WITH_COUNTS:
        configs = [
            TopicConfig(c.name, c.value, ConfigSource(c.config_source), c.is_sensitive, c.read_only)
            for c in row.configs
        ]
        known = known._replace(
            partitions=row.num_partitions,
            replication_factor=row.replication_factor,
            configs=configs,
            config_error=KafkaError(row.topic_config_error_code),
        )
    return known._replace(topic_id=text_of(row.topic_id)) if version >= WITH_IDS else known


# -- CreateTopics ------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(CREATE_VERSIONS), st.lists(WANTED, max_size=4), INT32, st.booleans())
def test_topics_to_create_are_read_as_they_were_written(
    version: int, topics: list[CreatableTopic], timeout_ms: int, validate_only: bool
) -> None:
    request = asked(
        CREATE, version, topics=[*map(creation, topics)], timeout=ms(timeout_ms), validate_only=validate_only
    )

    assert decode_create_topics(request) == CreateTopicsQuery(topics, timeout_ms, validate_only)


def test_a_topic_named_twice_is_read_twice() -> None:
    row = creation(CreatableTopic("orders", -1, -1, (), ()))

    query = decode_create_topics(asked(CREATE, 7, topics=[row, row]))

    assert [topic.name for topic in query.topics] == ["orders", "orders"]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(CREATE_VERSIONS), st.lists(CREATED, max_size=4), st.integers(0, 2**31 - 1))
def test_created_topics_are_written_as_kio_writes_them(
    version: int, topics: list[CreatedTopic], throttle_ms: int
) -> None:
    entity = read_back(CREATE, version, encode_create_topics(head(CREATE, version), topics, throttle_ms))

    expected = topics
    if version < WITH_IDS:
        expected = [topic._replace(topic_id=None) for topic in expected]
    if version < WITH_COUNTS:
        expected = [CreatedTopic(topic.name, topic.error, topic.message) for topic in expected]
    assert [created(row, version) for row in entity.topics] == expected
    assert entity.throttle_time == ms(throttle_ms)


def test_a_created_topic_of_version_7_has_the_bytes_of_the_protocol() -> None:
    topic = CreatedTopic("t", KafkaError.NONE, None, ID_ONE, 3, 2, [TopicConfig("k", "v")])

    answer = encode_create_topics(head(CREATE, 7), [topic], throttle_ms=5)

    parts = (
        "00000007 00",  # correlation id, tags of the header
        "00000005 02",  # throttle time, one topic
        f"0274 {UUID_ONE.hex} 0000 00",  # name, id, no error, no message
        "00000003 0002",  # partitions, replication factor
        "02 026b 0276 00 05 00 00",  # one configuration: a default
        "00 00",  # no tags of the topic, none of the whole
    )
    assert answer == bytes.fromhex("".join(parts))


def test_a_hidden_configuration_is_reported_in_a_tagged_field() -> None:
    topic = CreatedTopic("t", KafkaError.NONE, config_error=KafkaError.TOPIC_AUTHORIZATION_FAILED)

    answer = encode_create_topics(head(CREATE, 5), [topic])

    start, counts, no_configs, tagged = "00000007 00 00000000 02 0274 0000 00", "ffffffff ffff", "01", "01 00 02 001d"
    assert answer == bytes.fromhex(start + counts + no_configs + tagged + "00")


@pytest.mark.parametrize("version", [-1, 8])
def test_a_version_of_create_topics_that_does_not_exist_is_unknown(version: int) -> None:
    request = asked(CREATE, 7)
    with pytest.raises(UnknownApi):
        decode_create_topics(as_request(request.frame[:2] + version.to_bytes(2, signed=True) + request.frame[4:]))


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_topics_to_create_that_are_cut_or_too_long_are_malformed(version: int) -> None:
    wanted = CreatableTopic("orders", -1, -1, (WantedAssignment(0, (BrokerId(1),)),), (("k", None),))

    for request in damaged(asked(CREATE, version, topics=[creation(wanted)])):
        with pytest.raises(MalformedMessage):
            decode_create_topics(request)


@pytest.mark.parametrize(
    "topics",
    [
        "00",  # no list of topics
        "02 00 ffffffff ffff 01 01 00",  # no name
        "02 0274 ffffffff ffff 00 01 00",  # no list of assignments
        "02 0274 ffffffff ffff 02 00000000 00 00 01 00",  # no list of replicas
        "02 0274 ffffffff ffff 01 00 00",  # no list of configurations
        "02 0274 ffffffff ffff 01 02 00 00 00 00",  # a configuration without name
        "02 02ff ffffffff ffff 01 01 00",  # a name that is not UTF-8
        "ffffffff0f 0274 ffffffff ffff 01 01 00",  # four thousand million topics
    ],
)
def test_topics_to_create_with_something_missing_are_malformed(topics: str) -> None:
    frame = bytes.fromhex("0013 0007 00000007 ffff 00" + topics + "0000ea60 00 00")
    with pytest.raises(MalformedMessage):
        decode_create_topics(as_request(frame))


# -- DeleteTopics ------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DELETE_VERSIONS[:-1]), st.lists(NAMES, max_size=5), INT32)
def test_topics_to_delete_by_name_are_read_as_they_were_written(
    version: int, names: list[str], timeout_ms: int
) -> None:
    query = decode_delete_topics(asked(DELETE, version, topic_names=names, timeout=ms(timeout_ms)))

    assert query == DeleteTopicsQuery([WantedDeletion(name, None) for name in names], timeout_ms)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS, UUIDS), max_size=5), INT32)
def test_topics_to_delete_by_name_or_id_are_read_as_they_were_written(
    rows: list[tuple[str | None, UUID | None]], timeout_ms: int
) -> None:
    topics = [{"name": name, "topic_id": topic_id} for name, topic_id in rows]

    query = decode_delete_topics(asked(DELETE, 6, topics=topics, timeout=ms(timeout_ms)))

    assert query == DeleteTopicsQuery([WantedDeletion(name, text_of(topic_id)) for name, topic_id in rows], timeout_ms)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(DELETE_VERSIONS),
    st.lists(st.tuples(NAMES, UUIDS, ERRORS, TEXTS), max_size=5),
    st.integers(0, 2**31 - 1),
)
def test_deleted_topics_are_written_as_kio_writes_them(
    version: int, rows: list[tuple[str, UUID | None, KafkaError, str | None]], throttle_ms: int
) -> None:
    topics = [DeletedTopic(name, text_of(topic_id), error, text) for name, topic_id, error, text in rows]

    entity = read_back(DELETE, version, encode_delete_topics(head(DELETE, version), topics, throttle_ms))

    assert [(r.name, r.error_code) for r in entity.responses] == [(topic.name, topic.error) for topic in topics]
    assert [getattr(r, "error_message", None) for r in entity.responses] == [
        topic.message if version >= 5 else None for topic in topics
    ]
    assert [getattr(r, "topic_id", None) for r in entity.responses] == [
        topic_id if version >= 6 else None for _, topic_id, _, _ in rows
    ]
    assert entity.throttle_time == ms(throttle_ms)


def test_a_topic_whose_name_is_hidden_is_answered_by_its_id_alone() -> None:
    topic = DeletedTopic(None, ID_ONE, KafkaError.UNKNOWN_TOPIC_ID)

    (row,) = read_back(DELETE, 6, encode_delete_topics(head(DELETE, 6), [topic])).responses

    assert (row.name, row.topic_id) == (None, UUID_ONE)


@pytest.mark.parametrize("version", DELETE_VERSIONS[:-1])
def test_an_answer_without_name_is_refused_in_versions_that_need_one(version: int) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_delete_topics(head(DELETE, version), [DeletedTopic(None, ID_ONE, KafkaError.UNKNOWN_TOPIC_ID)])


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_topics_to_delete_that_are_cut_or_too_long_are_malformed(version: int) -> None:
    rows = [{"name": "orders", "topic_id": None}, {"name": None, "topic_id": UUID_ONE}]

    for request in damaged(asked(DELETE, version, topic_names=("orders", "payments"), topics=rows)):
        with pytest.raises(MalformedMessage):
            decode_delete_topics(request)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (1, "ffffffff 0000ea60"),  # no list
        (3, "00000001 ffff 0000ea60"),  # no name
        (4, "00 0000ea60 00"),
        (5, "02 00 0000ea60 00"),
        (6, "00 0000ea60 00"),
    ],
)
def test_topics_to_delete_with_something_missing_are_malformed(version: int, body: str) -> None:
    tags = "00" if version >= 4 else ""
    frame = bytes.fromhex(f"0014{version:04x}00000007ffff" + tags + body)
    with pytest.raises(MalformedMessage):
        decode_delete_topics(as_request(frame))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([(CREATE, v) for v in CREATE_VERSIONS] + [(DELETE, v) for v in DELETE_VERSIONS]), st.binary())
def test_any_bytes_are_a_request_or_malformed(api: tuple[int, int], body: bytes) -> None:
    key, version = api
    decode = {CREATE: decode_create_topics, DELETE: decode_delete_topics}[key]
    frame = key.to_bytes(2) + version.to_bytes(2) + b"\0\0\0\7\xff\xff" + body
    try:
        decode(as_request(frame))
    except MalformedMessage:
        return
