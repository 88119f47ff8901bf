"""Messages without tagged fields are passed over to their end, and no length in them leads back or beyond it."""

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


def cut_or_not(kind: type, body: bytes) -> list[bool]:
    """Whether each beginning of a message is found to be malformed, from the shortest to the whole."""
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
def test_only_the_whole_message_adds_up(key: int, version: int, values: dict[str, object]) -> None:
    entity = new_request(key, version, values)
    body = encode_entity(entity)

    assert cut_or_not(type(entity), body) == [True] * len(body) + [False]


@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_a_string_of_a_length_below_that_of_null_is_malformed(length: int) -> None:
    assert is_malformed(HANDSHAKE, struct.pack(">h", length))
    assert not is_malformed(HANDSHAKE, NULL)  # whether null may be here is for kio to say


@pytest.mark.parametrize("length", [-2, -4, -(2**31)])
def test_bytes_of_a_length_below_that_of_null_are_malformed(length: int) -> None:
    assert is_malformed(SASL, struct.pack(">i", length))
    assert not is_malformed(SASL, struct.pack(">i", -1))


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_an_array_that_says_more_elements_than_there_are_bytes_is_malformed_at_once(count: int) -> None:
    assert is_malformed(METADATA, struct.pack(">i", count) + NULL)


def test_every_classic_schema_can_be_walked() -> None:
    for key, versions in ((key, schema_name_map.get(key.name.lower(), {})) for key in ApiKey):
        for version, kinds in versions.items():
            loaders = {EntityType.request: load_request_schema, EntityType.response: load_response_schema}
            for load in (partial(loaders[kind], key, version) for kind in kinds if kind in loaders):
                schema = load()
                if not schema.__flexible__:
                    assert is_malformed(schema, b"") is bool(fields(schema))
