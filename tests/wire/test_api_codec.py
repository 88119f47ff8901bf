"""Error texts that are too long for a response, and requests with bytes behind them."""

from typing import Any

import pytest

from controllerd.core.kafka_error import KafkaError
from wire.api_codec import Request
from wire.api_scram import ScramDeletion, decode_alter_scram
from wire.api_topics import ExpandedTopic, encode_create_partitions
from wire.errors import MalformedMessage
from wire.framing import RequestHeader, peek_request
from wire.kio_codec import decode_response

LONGEST = 2**15 - 1
NAME = "é" * 16_383


@pytest.mark.parametrize("version", [0, 3])
def test_an_error_text_that_repeats_the_longest_name_is_cut_to_what_clients_read(version: int) -> None:
    text = f"The topic '{NAME}' does not exist."
    row = ExpandedTopic(NAME, KafkaError.UNKNOWN_TOPIC_OR_PARTITION, text)

    answer: Any = decode_response(37, version, encode_create_partitions(RequestHeader(37, version, 1), [row]))[1]

    (result,) = answer.results
    assert result.name == NAME
    assert len(result.error_message.encode()) <= LONGEST
    assert text.startswith(result.error_message)
    assert len(result.error_message) > LONGEST // 2 - 10


BY_LIBRDKAFKA = bytes.fromhex("0033000000000006000772646b61666b61000204626f620100010000")
"""The request of librdkafka 2.16.1 to delete a credential: it has one byte too many at its end."""


def test_an_alter_scram_request_of_librdkafka_may_have_one_more_byte() -> None:
    query = decode_alter_scram(Request(peek_request(BY_LIBRDKAFKA), BY_LIBRDKAFKA))
    assert (query.deletions, query.upsertions) == ([ScramDeletion("bob", 1)], [])


@pytest.mark.parametrize("more", [b"\0", b"\1", bytes(9)])
def test_no_other_byte_may_follow_an_alter_scram_request(more: bytes) -> None:
    frame = BY_LIBRDKAFKA + more
    with pytest.raises(MalformedMessage):
        decode_alter_scram(Request(peek_request(frame), frame))
