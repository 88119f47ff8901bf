"""The generic codec: exact versions, exact lengths, one error for everything unreadable."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.controlled_shutdown.v3.response import ControlledShutdownResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i64

from wire.errors import MalformedMessage, UnknownApi
from wire.framing import RequestHeader
from wire.kio_codec import (
    decode_entity,
    decode_request,
    decode_response,
    encode_entity,
    encode_request,
    encode_response,
    request_type,
    response_type,
)
from wire.versions import ApiKey

ASK = ControlledShutdownRequest(broker_id=BrokerId(1), broker_epoch=i64(11))
TELL = ControlledShutdownResponse(error_code=ErrorCode.none, remaining_partitions=())


def test_a_request_survives_the_wire() -> None:
    header, entity = decode_request(encode_request(7, "me", ASK))

    assert header == RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 3, 7, "me")
    assert entity == ASK


def test_a_response_survives_the_wire() -> None:
    assert decode_response(ApiKey.CONTROLLED_SHUTDOWN, 3, encode_response(7, TELL)) == (7, TELL)


@pytest.mark.parametrize(("key", "version"), [(ApiKey.CONTROLLED_SHUTDOWN, 4), (999, 0), (ApiKey.METADATA, -1)])
def test_an_api_or_version_without_schema_is_unknown(key: int, version: int) -> None:
    with pytest.raises(UnknownApi):
        request_type(key, version)
    with pytest.raises(UnknownApi):
        response_type(key, version)


def test_a_body_cut_anywhere_or_with_more_behind_it_is_malformed() -> None:
    body = encode_entity(ASK)

    for wrong in [*(body[:end] for end in range(len(body))), body + b"\0"]:
        with pytest.raises(MalformedMessage):
            decode_entity(ControlledShutdownRequest, wrong)


def test_a_string_of_a_length_below_that_of_null_is_malformed() -> None:
    body = struct.pack(">ihh", 1, -2, 0)  # kio would step back by this length and read the length as the timeout

    with pytest.raises(MalformedMessage):
        decode_entity(request_type(ApiKey.DELETE_TOPICS, 1), body)


def test_an_array_of_more_elements_than_bytes_is_malformed_before_any_is_read() -> None:
    with pytest.raises(MalformedMessage, match="cannot fit"):
        decode_entity(request_type(ApiKey.METADATA, 8), struct.pack(">ih", 1_000, -2))


def test_an_unknown_error_code_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        decode_entity(ControlledShutdownResponse, b"\x7f\xff\x01\x00")


@settings(deadline=None)  # the first of an API loads its schema
@given(key=st.sampled_from([*ApiKey]), version=st.integers(0, 12), body=st.binary(max_size=100))
def test_any_bytes_are_a_request_or_refused(key: ApiKey, version: int, body: bytes) -> None:
    try:
        kind = request_type(key, version)
        decode_entity(kind, body)
    except (MalformedMessage, UnknownApi):
        return
