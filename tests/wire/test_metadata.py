"""Metadata as plain values, from a server that writes it with kio."""

import asyncio
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode

from tests.wire.kio_mirror import build
from tests.wire.test_connection import server
from wire.errors import MalformedMessage, UnsupportedByPeer
from wire.framing import encode_frame
from wire.kio_codec import decode_request, encode_response, response_type
from wire.metadata import (
    EncodedMetadata,
    NodeMetadata,
    PartitionMetadata,
    fetch_encoded_metadata,
    fetch_metadata,
    walk_topics,
)
from wire.primitives import topic_id_text
from wire.versions import ApiKey

T_ID = uuid.UUID(int=7)


def cluster(version: int = 12) -> Any:
    partition = {
        "error_code": ErrorCode.leader_not_available,
        "partition_index": 3,
        "leader_id": -1,
        "leader_epoch": 4,
        "replica_nodes": (1, 2),
        "isr_nodes": (2,),
        "offline_replicas": (1,),
    }
    topic = {
        "error_code": ErrorCode.none,
        "name": "t",
        "topic_id": T_ID,
        "is_internal": False,
        "partitions": [partition],
        "topic_authorized_operations": -(2**31),
    }
    node = {"node_id": 1, "host": "a", "port": 9092, "rack": "r"}
    values = {"brokers": [node], "cluster_id": "c", "controller_id": 2_000_000_000, "topics": [topic]}
    values |= {"throttle_time": timedelta(0), "cluster_authorized_operations": -(2**31)}
    return build(response_type(ApiKey.METADATA, version), values)


def broker_up_to(highest: int) -> Callable[[bytes], bytes | None]:
    """A broker that knows Metadata up to this version, and closes the connection at a higher one."""

    def answered(frame: bytes) -> bytes | None:
        header = decode_request(frame).header
        if header.api_key == ApiKey.API_VERSIONS:
            return encode_frame(encode_response(header.correlation_id, versions(highest)))
        if header.version > highest:
            return None
        return encode_frame(encode_response(header.correlation_id, cluster(header.version)))

    return answered


def versions(highest: int) -> Any:
    row = {"api_key": ApiKey.METADATA, "min_version": 0, "max_version": highest}
    return build(ApiVersionsResponse, {"error_code": ErrorCode.none, "api_keys": [row], "throttle_time": timedelta(0)})


answer = broker_up_to(12)


@pytest.mark.parametrize(("highest", "topic_id"), [(9, None), (11, T_ID), (12, T_ID), (13, T_ID)])
async def test_the_cluster_is_described_in_plain_values_by_brokers_of_each_release(
    highest: int, topic_id: uuid.UUID | None
) -> None:
    async with server(broker_up_to(highest)) as peer:
        seen = await fetch_metadata("127.0.0.1", peer.port)

    assert (seen.cluster_id, seen.controller_id) == ("c", 2_000_000_000)
    assert seen.brokers == {1: NodeMetadata(1, "a", 9092, "r")}
    assert seen.topics["t"].topic_id == (topic_id and topic_id_text(topic_id.bytes))
    assert seen.topics["t"].partitions == {3: PartitionMetadata(3, 5, -1, 4, (1, 2), (2,), (1,))}


@pytest.mark.parametrize("highest", [9, 11, 12])
async def test_an_answer_decoded_by_partitions_is_equal(highest: int) -> None:
    async with server(broker_up_to(highest)) as peer:
        seen = await fetch_metadata("127.0.0.1", peer.port)
        encoded = await fetch_encoded_metadata("127.0.0.1", peer.port, client_id="c")

    assert encoded.version == highest
    assert list(walk_topics(encoded)) == [None, seen.topics["t"]]


async def test_a_peer_without_a_common_version_gets_no_metadata_request() -> None:
    async with server(broker_up_to(8)) as peer:
        with pytest.raises(UnsupportedByPeer, match="METADATA"):
            await fetch_metadata("127.0.0.1", peer.port)

    assert len(peer.asked) == 1


async def test_a_truncated_answer_is_malformed_and_not_a_smaller_cluster() -> None:
    async with server(answer) as peer:
        version, body = await fetch_encoded_metadata("127.0.0.1", peer.port, client_id="c")

    for length in range(len(body)):
        with pytest.raises(MalformedMessage):
            list(walk_topics(EncodedMetadata(version, body[:length])))
    with pytest.raises(MalformedMessage):
        list(walk_topics(EncodedMetadata(version, body + b"\x00")))


async def test_all_topics_are_requested_unless_some_are_named() -> None:
    async with server(answer) as peer:
        await fetch_metadata("127.0.0.1", peer.port)
        await fetch_metadata("127.0.0.1", peer.port, ["t"])
        await asyncio.wait_for(peer.ended.wait(), 5)

    requests = [decode_request(frame) for frame in peer.asked]
    asked: list[Any] = [each.entity for each in requests if each.header.api_key == ApiKey.METADATA]
    assert asked[0].topics is None
    assert [topic.name for topic in asked[1].topics] == ["t"]
    assert not asked[1].allow_auto_topic_creation
