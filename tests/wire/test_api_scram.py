"""Requests about SCRAM credentials are read as kio writes them, and answers written as kio reads them."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError
from tests.wire.asking import as_request, asked, damaged, head, ms, read_back
from wire.api_scram import (
    AlterScramQuery,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
    decode_alter_scram,
    encode_alter_scram,
)
from wire.errors import MalformedMessage

ALTER = 51
INT8 = st.integers(-128, 127)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(max_size=20)
TEXTS = st.none() | st.text(max_size=100)
ERRORS = st.sampled_from(KafkaError)
DELETIONS = st.builds(ScramDeletion, NAMES, INT8)
UPSERTIONS = st.builds(ScramUpsertion, NAMES, INT8, INT32, st.binary(max_size=40), st.binary(max_size=80))
SECRET = ScramUpsertion("alice", 1, 4096, b"the salt", b"the salted password")


def upsertion(row: ScramUpsertion) -> dict[str, object]:
    """A credential to set as kio takes it."""
    return {
        "name": row.user,
        "mechanism": row.mechanism,
        "iterations": row.iterations,
        "salt": row.salt,
        "salted_password": row.salted_password,
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(DELETIONS, max_size=4), st.lists(UPSERTIONS, max_size=4))
def test_wanted_credentials_are_read_as_they_were_written(
    deletions: list[ScramDeletion], upsertions: list[ScramUpsertion]
) -> None:
    rows = [{"name": row.user, "mechanism": row.mechanism} for row in deletions]

    query = decode_alter_scram(asked(ALTER, 0, deletions=rows, upsertions=[*map(upsertion, upsertions)]))

    assert query == AlterScramQuery(deletions, upsertions)


def test_a_credential_to_set_does_not_show_its_secrets() -> None:
    shown = repr(AlterScramQuery([], [SECRET]))

    assert "alice" in shown
    assert "salt" not in shown


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.builds(ScramResult, NAMES, ERRORS, TEXTS), max_size=4),
    st.integers(0, 2**31 - 1),
)
def test_changed_users_are_written_as_kio_writes_them(users: list[ScramResult], throttle_ms: int) -> None:
    entity = read_back(ALTER, 0, encode_alter_scram(head(ALTER, 0), users, throttle_ms))

    assert [ScramResult(r.user, KafkaError(r.error_code), r.error_message) for r in entity.results] == users
    assert entity.throttle_time == ms(throttle_ms)


def test_wanted_credentials_that_are_cut_or_too_long_are_malformed() -> None:
    whole = asked(ALTER, 0, deletions=[{"name": "bob", "mechanism": 2}], upsertions=[upsertion(SECRET)])

    *cut, ended_again = damaged(whole)
    for request in (*cut, as_request(ended_again.frame + b"\0")):
        with pytest.raises(MalformedMessage):
            decode_alter_scram(request)


@pytest.mark.parametrize(
    "body",
    [
        "00 01 00",  # no list of deletions
        "01 00 00",  # no list of upsertions
        "02 00 01 00 01 00",  # a deletion without user
        "01 02 00 01 00001000 02aa 02bb 00 00",  # an upsertion without user
        "01 02 0261 01 00001000 00 02bb 00 00",  # no salt
        "01 02 0261 01 00001000 02aa 00 00 00",  # no password
    ],
)
def test_wanted_credentials_with_something_missing_are_malformed(body: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_alter_scram(as_request(bytes.fromhex("0033 0000 00000007 ffff 00" + body)))


@settings(max_examples=100, deadline=None)
@given(st.binary())
def test_any_bytes_are_a_request_or_malformed(body: bytes) -> None:
    with suppress(MalformedMessage):
        decode_alter_scram(as_request(ALTER.to_bytes(2) + b"\0\0\0\0\0\7\xff\xff\0" + body))
