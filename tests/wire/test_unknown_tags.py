"""Unknown tagged fields are skipped at every place; everything else is read unchanged."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.metadata.v8.request import MetadataRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32
from kio.static.protocol import Payload

from tests.api.cluster import new_request
from wire.errors import MalformedMessage, UnknownApi
from wire.kio_codec import decode_entity, encode_entity, request_type
from wire.primitives import uvarint
from wire.unknown_tags import without_unknown_tags
from wire.versions import ApiKey

NO_TAGS = b"\0"
UNKNOWN = uvarint(900) + uvarint(3) + b"new"
TOPIC = {
    "name": "t",
    "num_partitions": -1,
    "replication_factor": -1,
    "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}],
    "configs": [{"name": "retention.ms", "value": None}],
}
CREATION = new_request(ApiKey.CREATE_TOPICS, 7, {"topics": [TOPIC], "validate_only": True})
FETCH = new_request(1, 12, {"cluster_id": "cluster", "rack_id": "rack"})


def ending_with(entity: Payload, *fields: bytes) -> bytes:
    """The message with these tagged fields instead of none at its end."""
    body = encode_entity(entity)
    assert body.endswith(NO_TAGS)
    return body[:-1] + uvarint(len(fields)) + b"".join(fields)


def test_a_field_at_the_end_is_skipped() -> None:
    assert decode_entity(CreateTopicsRequest, ending_with(CREATION, UNKNOWN)) == CREATION


def test_a_field_behind_other_bytes_is_skipped() -> None:
    """The body of a request begins after its header."""
    assert decode_entity(CreateTopicsRequest, b"header" + ending_with(CREATION, UNKNOWN, UNKNOWN), 6) == CREATION


def test_a_field_of_a_row_is_skipped() -> None:
    name = b"\x0dretention.ms\0"
    whole = encode_entity(CREATION)
    assert whole.count(name + NO_TAGS) == 1

    body = whole.replace(name + NO_TAGS, name + b"\1" + UNKNOWN)

    assert decode_entity(CreateTopicsRequest, body) == CREATION


def test_a_known_field_is_kept() -> None:
    body = encode_entity(FETCH)
    known = b"\1\0\x08\x08cluster"
    assert body.endswith(known)

    entity: Any = decode_entity(FetchRequest, body.removesuffix(known) + b"\2" + known[1:] + UNKNOWN)

    assert entity == FETCH
    assert entity.cluster_id == "cluster"


@pytest.mark.parametrize("cursor", [Cursor(topic_name=TopicName("t"), partition_index=i32(3)), None])
def test_a_structure_may_be_absent(cursor: Cursor | None) -> None:
    entity = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=i32(1), cursor=cursor)

    assert decode_entity(DescribeTopicPartitionsRequest, ending_with(entity, UNKNOWN)) == entity


def test_a_version_without_tagged_fields_is_unchanged() -> None:
    assert without_unknown_tags(MetadataRequest, b"head" + b"\0\0\0\0", 4) == b"\0\0\0\0"


def test_a_truncated_field_is_malformed() -> None:
    body = ending_with(CREATION, UNKNOWN)

    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode_entity(CreateTopicsRequest, body[:end])
    with pytest.raises(MalformedMessage):
        decode_entity(CreateTopicsRequest, body + b"\0")


def test_a_known_field_with_bytes_after_its_value_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        without_unknown_tags(FetchRequest, encode_entity(FETCH).removesuffix(b"\x08\x08cluster") + b"\x09\x08cluster\0")


@settings(deadline=None)  # the first of an API loads its schema
@given(key=st.sampled_from([*ApiKey]), version=st.integers(0, 12), body=st.binary(max_size=100))
def test_any_bytes_are_walked_or_malformed(key: ApiKey, version: int, body: bytes) -> None:
    try:
        kept = without_unknown_tags(request_type(key, version), body)
    except (MalformedMessage, UnknownApi):
        return
    assert without_unknown_tags(request_type(key, version), kept) == kept
