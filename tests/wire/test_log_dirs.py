"""The hand-written codec of DescribeLogDirs agrees with kio, and refuses truncated answers."""

from datetime import timedelta

import pytest
from kio.schema.describe_log_dirs.v1.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from controllerd.core.model import TopicPartition
from wire.errors import MalformedMessage
from wire.kio_codec import encode_entity
from wire.log_dirs import Portion, decode_log_dirs, encode_log_dirs_query


def row(partition: int, size: int, lag: int = 0, *, future: bool = False) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=i32(partition), partition_size=i64(size), offset_lag=i64(lag), is_future_key=future
    )


def answer(*dirs: tuple[ErrorCode, str, dict[str, tuple[DescribeLogDirsPartition, ...]]]) -> bytes:
    results = tuple(
        DescribeLogDirsResult(
            error_code=error,
            log_dir=directory,
            topics=tuple(DescribeLogDirsTopic(name=TopicName(n), partitions=rows) for n, rows in topics.items()),
        )
        for error, directory, topics in dirs
    )
    throttle = i32Timedelta.parse(timedelta(milliseconds=7))
    return encode_entity(DescribeLogDirsResponse(throttle_time=throttle, results=results))


def test_the_request_names_each_topic_once() -> None:
    asked = encode_log_dirs_query([TopicPartition("t", 1), TopicPartition("ü", 0), TopicPartition("t", 5)])

    topics = (
        DescribableLogDirTopic(topic=TopicName("t"), partitions=(i32(1), i32(5))),
        DescribableLogDirTopic(topic=TopicName("ü"), partitions=(i32(0),)),
    )
    assert asked == encode_entity(DescribeLogDirsRequest(topics=topics))


def test_replicas_come_with_bytes_and_lag_except_future_replicas() -> None:
    body = answer(
        (ErrorCode.none, "/a", {"t": (row(0, 500, 3), row(1, 2**40))}),
        (ErrorCode.none, "/b", {"u": (row(7, 1), row(8, 9, future=True))}),
    )

    found = list(decode_log_dirs(body))

    t, u = "t", "u"
    assert found == [
        Portion({TopicPartition(t, 0): (500, 3), TopicPartition(t, 1): (2**40, 0)}),
        Portion({TopicPartition(u, 7): (1, 0)}),
    ]


def test_a_failed_directory_is_reported() -> None:
    (portion,) = decode_log_dirs(answer((ErrorCode.kafka_storage_error, "/a", {})))

    assert portion == Portion({}, "its log directory /a failed (error code 56)")


def test_very_many_replicas_come_in_portions() -> None:
    body = answer((ErrorCode.none, "/a", {"t": tuple(row(number, number) for number in range(2500))}))

    portions = list(decode_log_dirs(body))

    assert [len(portion.rows) for portion in portions] == [1000, 1000, 500]


def test_a_truncated_answer_is_malformed() -> None:
    body = answer((ErrorCode.none, "/a", {"t": (row(0, 500, 3),)}))

    for end in range(4, len(body)):
        with pytest.raises(MalformedMessage):
            list(decode_log_dirs(body[:end]))


def test_a_name_that_is_not_utf8_is_malformed() -> None:
    body = answer((ErrorCode.none, "/a", {"t": (row(0, 500, 3),)})).replace(b"/a", b"\xff\xfe")

    with pytest.raises(MalformedMessage, match="not UTF-8"):
        list(decode_log_dirs(body))
