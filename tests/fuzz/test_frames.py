"""The fuzzer's own parts: valid requests are valid, a seed always gives the same frames, and the judge finds errors."""

import struct
from collections import Counter
from random import Random
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader

from controllerd.core.kafka_error import KafkaError
from tests.api.cluster import new_request
from tests.fuzz.frames import Maker, advertised, relayed_ranges
from tests.fuzz.judge import SeenFrame, Wrong, deframe, judge, unfinished
from tests.fuzz.leaks import Holdings, grown
from tests.fuzz.other_protocols import client_hello
from tests.fuzz.rows import missing_rows
from tests.fuzz.shape import uvarint
from tests.fuzz.spoil import Expect
from tests.fuzz.talks import ConversationMaker, Way
from tests.fuzz.values import Facts
from wire.api_codec import fill
from wire.api_messages import encode_api_versions
from wire.framing import RequestHeader, decode_request_header, encode_frame, peek_request
from wire.kio_codec import encode_request, response_type

ASKED = struct.pack(">hhih", 18, 0, 7, -1)
ANSWER = encode_api_versions(RequestHeader(18, 0, 7), KafkaError.NONE, {})
GOOD = SeenFrame(ASKED, Expect.ANSWER)
RISKY = SeenFrame(ASKED, Expect.EITHER)
NONE = SeenFrame(None, Expect.CLOSE)


@pytest.mark.parametrize(("key", "version"), [*advertised(), *((k, r[1]) for k, r in relayed_ranges().items())])
def test_a_good_request_is_what_kio_reads(key: int, version: int) -> None:
    schema: Any = load_request_schema(key, version)
    for seed in range(5):
        frame = Maker(Random(seed), Facts()).good(key, version)

        head = decode_request_header(frame.content)[1]  # kio knows none of the tags that a header may have
        _, size = entity_reader(schema)(frame.content, head)

        assert frame.expect is Expect.ANSWER
        assert head + size == len(frame.content)
        assert peek_request(frame.content)[:2] == (key, version)


def test_the_same_seed_makes_the_same_conversations() -> None:
    one, other = ConversationMaker("1/2", Facts()), ConversationMaker("1/2", Facts())
    assert [one.talk() for _ in range(20)] == [other.talk() for _ in range(20)]


def test_conversations_come_in_every_way_over_sockets_and_in_memory() -> None:
    talker = ConversationMaker("3", Facts())
    talks = [talker.talk() for _ in range(300)]
    assert {talk.way for talk in talks} == set(Way)
    assert {talk.over_socket for talk in talks} == {True, False}
    assert {frame.expect for talk in talks for frame in talk.frames} == set(Expect)


def test_an_overlong_varint_says_the_same() -> None:
    assert uvarint(5) == b"\x05"
    assert uvarint(5, least=3) == b"\x85\x80\x00"


def test_a_stream_is_taken_apart_as_the_server_has_to() -> None:
    expected = {ASKED: Expect.ANSWER}
    whole = encode_frame(ASKED)
    assert deframe(whole + whole[:9], expected) == [GOOD]
    assert deframe(whole + b"\xff\xff\xff\xff" + whole, expected) == [GOOD, NONE]
    assert deframe(struct.pack(">i", 2**20 + 1), expected) == [NONE]
    assert deframe(encode_frame(b"other"), expected) == [SeenFrame(b"other", Expect.EITHER)]


@pytest.mark.parametrize(
    ("frames", "answers", "closed"),
    [
        ([GOOD], [], True),
        ([GOOD], [], False),
        ([RISKY], [], False),
        ([NONE], [ANSWER], True),
        ([GOOD], [ANSWER], True),
        ([GOOD], [ANSWER, ANSWER], False),
        ([GOOD], [ANSWER + b"\0"], False),
        ([GOOD], [ANSWER[:-1]], False),
        ([GOOD], [b"\0\0\0\x08" + ANSWER[4:]], False),
        ([RISKY], [ANSWER + b"\0"], False),
    ],
)
def test_what_the_server_may_not_do_is_seen(frames: list[SeenFrame], answers: list[bytes], *, closed: bool) -> None:
    with pytest.raises(Wrong):
        judge(frames, answers, closed=closed, may_lose=False)


@pytest.mark.parametrize(
    ("frames", "answers", "closed", "taken"),
    [
        ([GOOD, GOOD], [ANSWER, ANSWER], False, 2),
        ([RISKY], [], True, 0),
        ([RISKY], [ANSWER], False, 1),
        ([GOOD, NONE], [ANSWER], True, 1),
        ([], [], False, 0),
    ],
)
def test_what_the_server_may_do_is_let_pass(
    frames: list[SeenFrame], answers: list[bytes], *, closed: bool, taken: int
) -> None:
    assert judge(frames, answers, closed=closed, may_lose=False) == taken


def test_a_client_that_sends_no_more_may_be_hung_up_on_when_all_is_answered() -> None:
    assert judge([GOOD], [ANSWER], closed=True, may_lose=False, finished=True) == 1
    assert judge([GOOD, GOOD], [ANSWER], closed=True, may_lose=True, finished=True) == 1
    with pytest.raises(Wrong):
        judge([GOOD, GOOD], [ANSWER], closed=True, may_lose=False, finished=True)


def test_an_answer_that_lacks_a_row_or_has_another_is_seen() -> None:
    asked = new_request(20, 5, {"topic_names": ("one", "two")})
    request = encode_request(7, "fuzz", asked)

    def wrong(*names: str) -> str:
        rows = [{"name": name, "error_code": 3} for name in names]
        return missing_rows(request, fill(response_type(20, 5), {"responses": rows}))

    assert not wrong("two", "one")
    assert wrong("one")
    assert wrong("one", "two", "three")


def test_what_is_left_of_a_stream_is_counted() -> None:
    whole = encode_frame(ASKED)
    assert [unfinished(whole + whole[:end]) for end in (0, 1, len(whole))] == [0, 1, 0]


def test_what_is_held_too_much_is_named() -> None:
    before = Holdings(0, 0, Counter({"one": 5, "other": 10}))
    assert grown(before, Holdings(2**20, 9, Counter({"one": 6, "other": 2, "new": 3}))) == []
    assert grown(before, Holdings(2**20, 9, Counter({"one": 1_000}))) == ["995 more of one"]
    assert grown(before, Holdings(0, 200_000, Counter())) == ["200,000 more allocations"]
    assert grown(before, Holdings(2**30, 0, Counter())) == ["1024 MiB instead of 0"]


def test_a_tls_client_begins_as_no_frame_does() -> None:
    assert deframe(client_hello(), {}) == [NONE]


def test_an_answer_that_was_lost_with_its_connection_is_no_fault_over_a_socket() -> None:
    assert judge([GOOD, RISKY], [], closed=True, may_lose=True) == 0
    with pytest.raises(Wrong):
        judge([GOOD, GOOD], [], closed=True, may_lose=True)
