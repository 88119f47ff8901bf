"""Lengths in messages without tagged fields: none is negative, and none reaches beyond the end of the message."""

import struct
from dataclasses import fields
from functools import partial

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from tests.api.cluster import new_request
from wire.errors import MalformedMessage
from wire.kio_codec import encode_entity, request_type
from wire.length_checks import check_lengths
from wire.versions import ApiKey

NULL = struct.pack(">h", -1)
SASL = request_type(ApiKey.SASL_AUTHENTICATE, 0)
HANDSHAKE = request_type(ApiKey.SASL_HANDSHAKE, 0)
METADATA = request_type(ApiKey.METADATA, 4)


def malformed_prefixes(kind: type, body: bytes) -> list[bool]:
    """Whether each prefix of a message is malformed, from the shortest to the whole message."""
    return [is_malformed(kind, body[:end]) for end in range(len(body) + 1)]


def is_malformed(kind: type, body: bytes) -> bool:
    try:
        check_lengths(kind, body, 0)
    except MalformedMessage:
        return True
    return False


@pytest.mark.parametrize(
    ("key", "version", "values"),
    [
        (ApiKey.CREATE_TOPICS, 4, {"topics": [
            {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": [{"name": "a", "value": None}],
             "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}]},
        ]}),
        (ApiKey.METADATA, 8, {"topics": None}),
        (ApiKey.METADATA, 8, {"topics": [{"name": "one"}, {"name": ""}]}),
        (ApiKey.SASL_AUTHENTICATE, 0, {"auth_bytes": b"secret"}),
        (ApiKey.FIND_COORDINATOR, 2, {"key": "group", "key_type": 0}),
    ],
)  # fmt: skip
def test_only_the_whole_message_is_well_formed(key: int, version: int, values: dict[str, object]) -> None:
    entity = new_request(key, version, values)
    body = encode_entity(entity)

    assert malformed_prefixes(type(entity), body) == [True] * len(body) + [False]


@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_a_string_of_a_length_below_that_of_null_is_malformed(length: int) -> None:
    assert is_malformed(HANDSHAKE, struct.pack(">h", length))
    assert not is_malformed(HANDSHAKE, NULL)  # kio checks whether the field may be null


@pytest.mark.parametrize("length", [-2, -4, -(2**31)])
def test_bytes_of_a_length_below_that_of_null_are_malformed(length: int) -> None:
    assert is_malformed(SASL, struct.pack(">i", length))
    assert not is_malformed(SASL, struct.pack(">i", -1))


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_an_array_with_more_elements_than_bytes_is_malformed(count: int) -> None:
    assert is_malformed(METADATA, struct.pack(">i", count) + NULL)


def test_every_inflexible_schema_can_be_checked() -> None:
    for key, versions in ((key, schema_name_map.get(key.name.lower(), {})) for key in ApiKey):
        for version, kinds in versions.items():
            loaders = {EntityType.request: load_request_schema, EntityType.response: load_response_schema}
            for load in (partial(loaders[kind], key, version) for kind in kinds if kind in loaders):
                schema = load()
                if not schema.__flexible__:
                    assert is_malformed(schema, b"") is bool(fields(schema))
