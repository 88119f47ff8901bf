"""The hand-written codecs of operator requests agree with kio in every version."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaAssignment, TopicPartition
from events.admin import FeatureUpdate
from tests.api.cluster import new_request
from wire.api_codec import Request
from wire.api_elections import RowResult, decode_elect_leaders, encode_elect_leaders
from wire.api_features import (
    FeatureResult,
    UpdateFeaturesQuery,
    WantedFeature,
    decode_update_features,
    encode_update_features,
)
from wire.api_reassignments import (
    WantedReplicas,
    decode_alter_reassignments,
    decode_list_reassignments,
    encode_alter_reassignments,
    encode_list_reassignments,
)
from wire.errors import MalformedMessage
from wire.framing import RequestHeader, peek_request
from wire.kio_codec import decode_response, encode_request, encode_response

INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(min_size=1, max_size=20)
NUMBERED = st.dictionaries(NAMES, st.lists(INT32, max_size=5), max_size=4)
IDS = st.lists(INT32.map(BrokerId), max_size=4).map(tuple)
TEXTS = st.none() | st.text(max_size=200)
ERRORS = st.sampled_from(KafkaError)
ROWS = st.dictionaries(NAMES, st.lists(st.builds(RowResult, INT32, ERRORS, TEXTS), max_size=4), max_size=3)


def asked(api_key: int, version: int, **values: object) -> Request:
    frame = encode_request(7, "test", new_request(api_key, version, values))
    return Request(peek_request(frame), frame)


def read_back(api_key: int, version: int, answer: bytes) -> Any:
    correlation_id, entity = decode_response(api_key, version, answer)
    assert encode_response(correlation_id, entity) == answer, "kio would have written other bytes"
    return entity


def head(api_key: int, version: int) -> RequestHeader:
    return RequestHeader(api_key, version, 7, None)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2), st.integers(-128, 127), st.none() | NUMBERED)
def test_an_elect_leaders_request_is_read_as_it_was_written(
    version: int, kind: int, topics: dict[str, list[int]] | None
) -> None:
    rows = None if topics is None else [{"topic": name, "partitions": numbers} for name, numbers in topics.items()]

    query = decode_elect_leaders(asked(43, version, election_type=kind, topic_partitions=rows))

    assert query.election_type == (kind if version else 0)
    assert query.timeout_ms == 60_000
    wanted = None if topics is None else [TopicPartition(name, n) for name, numbers in topics.items() for n in numbers]
    assert query.partitions == wanted


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2), ERRORS, ROWS)
def test_results_of_elections_are_written_as_kio_writes_them(
    version: int, error: KafkaError, topics: dict[str, list[RowResult]]
) -> None:
    entity = read_back(43, version, encode_elect_leaders(head(43, version), error, topics))

    assert getattr(entity, "error_code", error) == error
    rows = {
        result.topic: [RowResult(r.partition_id, r.error_code, r.error_message) for r in result.partition_result]
        for result in entity.replica_election_results
    }
    assert rows == topics


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, st.lists(st.tuples(INT32, st.none() | IDS), max_size=4), max_size=4))
def test_wanted_reassignments_are_read_as_they_were_written(
    topics: dict[str, list[tuple[int, tuple[BrokerId, ...] | None]]],
) -> None:
    rows = [
        {"name": name, "partitions": [{"partition_index": index, "replicas": ids} for index, ids in partitions]}
        for name, partitions in topics.items()
    ]

    wanted = decode_alter_reassignments(asked(45, 0, topics=rows))

    assert wanted == [
        WantedReplicas(TopicPartition(name, index), ids) for name, rows in topics.items() for index, ids in rows
    ]


@settings(max_examples=60, deadline=None)
@given(ERRORS, TEXTS, ROWS)
def test_results_of_reassignments_are_written_as_kio_writes_them(
    error: KafkaError, message: str | None, topics: dict[str, list[RowResult]]
) -> None:
    entity = read_back(45, 0, encode_alter_reassignments(head(45, 0), error, message, topics))

    assert (entity.error_code, entity.error_message) == (error, message)
    rows = {
        topic.name: [RowResult(r.partition_index, r.error_code, r.error_message) for r in topic.partitions]
        for topic in entity.responses
    }
    assert rows == topics


@settings(max_examples=60, deadline=None)
@given(st.none() | NUMBERED)
def test_a_list_reassignments_request_is_read_as_it_was_written(topics: dict[str, list[int]] | None) -> None:
    rows = None if topics is None else [{"name": name, "partition_indexes": n} for name, n in topics.items()]

    wanted = decode_list_reassignments(asked(46, 0, topics=rows))

    expected = None if topics is None else [TopicPartition(name, n) for name, ns in topics.items() for n in ns]
    assert wanted == expected


@settings(max_examples=60, deadline=None)
@given(
    ERRORS,
    TEXTS,
    st.dictionaries(
        NAMES, st.lists(st.tuples(INT32, st.builds(ReplicaAssignment, IDS, IDS, IDS)), max_size=3), max_size=3
    ),
)
def test_reassignments_under_way_are_written_as_kio_writes_them(
    error: KafkaError, message: str | None, topics: dict[str, list[tuple[int, ReplicaAssignment]]]
) -> None:
    entity = read_back(46, 0, encode_list_reassignments(head(46, 0), error, message, topics))

    assert (entity.error_code, entity.error_message) == (error, message)
    rows = {
        topic.name: [
            (r.partition_index, ReplicaAssignment(r.replicas, r.adding_replicas, r.removing_replicas))
            for r in topic.partitions
        ]
        for topic in entity.topics
    }
    assert rows == topics


@pytest.mark.parametrize(
    ("version", "row", "update"),
    [
        (0, {"allow_downgrade": False}, FeatureUpdate(3, False)),
        (0, {"allow_downgrade": True}, FeatureUpdate(3, True)),
        (1, {"upgrade_type": 1}, FeatureUpdate(3, False)),
        (1, {"upgrade_type": 2}, FeatureUpdate(3, True)),
        (1, {"upgrade_type": 3}, FeatureUpdate(3, True)),
        (1, {"upgrade_type": 0}, None),
        (1, {"upgrade_type": 4}, None),
    ],
)
def test_wanted_features_are_read_in_both_versions(
    version: int, row: dict[str, object], update: FeatureUpdate | None
) -> None:
    rows = [{"feature": "f", "max_version_level": 3, **row}]

    query = decode_update_features(asked(57, version, feature_updates=rows, validate_only=True))

    assert query == UpdateFeaturesQuery([WantedFeature("f", update)], validate_only=version == 1)


@pytest.mark.parametrize("version", [0, 1])
def test_results_of_features_are_written_as_kio_reads_them(version: int) -> None:
    results = [FeatureResult("f", KafkaError.NONE), FeatureResult("g", KafkaError.INVALID_REQUEST, "why")]

    answer = encode_update_features(head(57, version), KafkaError.NONE, None, results)

    entity = read_back(57, version, answer)
    assert [FeatureResult(r.feature, r.error_code, r.error_message) for r in entity.results] == results


# The bodies after a header of version 2 without client id: timeout, topics, partitions ...
HEADER_45 = bytes.fromhex("002d000000000001ffff00")


@pytest.mark.parametrize(
    "body",
    [
        "0000ea60" + "00" + "00",  # no list of topics
        "0000ea60" + "02" + "0261" + "00" + "0000",  # no list of partitions
        "0000ea60" + "02" + "00" + "01" + "0000",  # no name
        "0000ea60" + "ffffffff07" + "00",  # two thousand million topics
        "0000ea60" + "02" + "0261" + "02" + "00000000" + "ffffff7f" + "00" + "00" + "00",  # replicas beyond the end
        "0000ea60" + "01" + "00" + "00",  # a byte too many
        "0000ea60" + "01",  # a byte too few
    ],
)
def test_a_body_with_wrong_lengths_is_malformed_input_31(body: str) -> None:
    frame = HEADER_45 + bytes.fromhex(body)
    with pytest.raises(MalformedMessage):
        decode_alter_reassignments(Request(peek_request(frame), frame))


@settings(deadline=None)
@given(st.sampled_from([(43, 0), (43, 1), (43, 2), (45, 0), (46, 0), (57, 0), (57, 1)]), st.binary(max_size=80))
def test_any_bytes_are_a_request_or_malformed(api: tuple[int, int], body: bytes) -> None:
    key, version = api
    decoders = {
        43: decode_elect_leaders,
        45: decode_alter_reassignments,
        46: decode_list_reassignments,
        57: decode_update_features,
    }
    tags = b"" if (key, version) in ((43, 0), (43, 1)) else b"\0"
    frame = key.to_bytes(2) + version.to_bytes(2) + b"\0\0\0\1\xff\xff" + tags + body
    try:
        decoders[key](Request(peek_request(frame), frame))
    except MalformedMessage:
        return
