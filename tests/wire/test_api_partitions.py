"""CreatePartitions reads what kio writes, and what we write kio reads, in every version."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from tests.wire.asking import as_request, asked, damaged, head, ms, read_back
from wire.api_topics import (
    CreatePartitionsQuery,
    CreatePartitionsTopic,
    ExpandedTopic,
    decode_create_partitions,
    encode_create_partitions,
)
from wire.errors import MalformedMessage

KEY = 37
VERSIONS = range(4)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(max_size=20)
LISTS = st.lists(st.lists(INT32.map(BrokerId), max_size=4).map(tuple), max_size=4).map(tuple)
WANTED = st.builds(CreatePartitionsTopic, NAMES, INT32, st.none() | LISTS)
RESULTS = st.builds(ExpandedTopic, NAMES, st.sampled_from(KafkaError), st.none() | st.text(max_size=100))


def expansion(topic: CreatePartitionsTopic) -> dict[str, object]:
    """A wanted expansion as kio takes it."""
    lists = None if topic.assignments is None else [{"broker_ids": ids} for ids in topic.assignments]
    return {"name": topic.name, "count": topic.total, "assignments": lists}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(VERSIONS), st.lists(WANTED, max_size=4), INT32, st.booleans())
def test_wanted_partitions_are_read_as_they_were_written(
    version: int, topics: list[CreatePartitionsTopic], timeout_ms: int, validate_only: bool
) -> None:
    rows = [expansion(topic) for topic in topics]

    query = decode_create_partitions(
        asked(KEY, version, topics=rows, timeout=ms(timeout_ms), validate_only=validate_only)
    )

    assert query == CreatePartitionsQuery(topics, timeout_ms, validate_only)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(VERSIONS), st.lists(RESULTS, max_size=4), st.integers(0, 2**31 - 1))
def test_expanded_topics_are_written_as_kio_writes_them(
    version: int, topics: list[ExpandedTopic], throttle_ms: int
) -> None:
    entity = read_back(KEY, version, encode_create_partitions(head(KEY, version), topics, throttle_ms))

    assert [ExpandedTopic(r.name, KafkaError(r.error_code), r.error_message) for r in entity.results] == topics
    assert entity.throttle_time == ms(throttle_ms)


@pytest.mark.parametrize("version", VERSIONS)
def test_wanted_partitions_that_are_cut_or_too_long_are_malformed(version: int) -> None:
    rows = [expansion(CreatePartitionsTopic("orders", 3, ((BrokerId(1), BrokerId(2)),)))]

    for request in damaged(asked(KEY, version, topics=rows)):
        with pytest.raises(MalformedMessage):
            decode_create_partitions(request)


@pytest.mark.parametrize(
    ("version", "topics"),
    [
        (0, "ffffffff"),  # no list of topics
        (1, "00000001 ffff 00000003 ffffffff"),  # no name
        (1, "00000001 000174 00000003 00000001 ffffffff"),  # no list of replicas
        (2, "00"),
        (3, "02 00 00000003 00 00"),
        (3, "02 0274 00000003 02 00 00 00"),
    ],
)
def test_wanted_partitions_with_something_missing_are_malformed(version: int, topics: str) -> None:
    tags = "00" if version >= 2 else ""
    frame = bytes.fromhex(f"0025{version:04x}00000007ffff" + tags + topics + "0000ea6000" + tags)
    with pytest.raises(MalformedMessage):
        decode_create_partitions(as_request(frame))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(VERSIONS), st.binary())
def test_any_bytes_are_a_request_or_malformed(version: int, body: bytes) -> None:
    try:
        decode_create_partitions(as_request(b"\0\x25" + version.to_bytes(2) + b"\0\0\0\7\xff\xff" + body))
    except MalformedMessage:
        return
