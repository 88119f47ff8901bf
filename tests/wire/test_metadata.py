"""Metadata as plain values, from a server that writes it with kio."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse

from tests.wire.kio_mirror import build
from tests.wire.test_connection import server
from wire.errors import MalformedMessage
from wire.framing import encode_frame
from wire.kio_codec import decode_request, encode_response
from wire.metadata import NodeMetadata, PartitionMetadata, fetch_encoded_metadata, fetch_metadata
from wire.metadata_walk import walk_topics
from wire.primitives import topic_id_text

T_ID = uuid.UUID(int=7)


def cluster() -> Any:
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
    return build(MetadataResponse, values | {"throttle_time": timedelta(0)})


def answer(frame: bytes) -> bytes:
    header, _ = decode_request(frame)
    return encode_frame(encode_response(header.correlation_id, cluster()))


async def test_the_cluster_is_described_in_plain_values() -> None:
    async with server(answer) as peer:
        seen = await fetch_metadata("127.0.0.1", peer.port)

    assert (seen.cluster_id, seen.controller_id) == ("c", 2_000_000_000)
    assert seen.brokers == {1: NodeMetadata(1, "a", 9092, "r")}
    assert seen.topics["t"].topic_id == topic_id_text(T_ID.bytes)
    assert seen.topics["t"].partitions == {3: PartitionMetadata(3, 5, -1, 4, (1, 2), (2,), (1,))}


async def test_an_answer_taken_apart_by_partitions_says_the_same() -> None:
    async with server(answer) as peer:
        seen = await fetch_metadata("127.0.0.1", peer.port)
        body = await fetch_encoded_metadata("127.0.0.1", peer.port, client_id="c")

    assert list(walk_topics(body)) == [None, seen.topics["t"]]


async def test_an_answer_that_breaks_off_is_malformed_and_not_taken_for_a_smaller_cluster() -> None:
    async with server(answer) as peer:
        body = await fetch_encoded_metadata("127.0.0.1", peer.port, client_id="c")

    for length in range(len(body)):
        with pytest.raises(MalformedMessage):
            list(walk_topics(body[:length]))
    with pytest.raises(MalformedMessage):
        list(walk_topics(body + b"\x00"))


async def test_all_topics_are_asked_for_unless_some_are_named() -> None:
    async with server(answer) as peer:
        await fetch_metadata("127.0.0.1", peer.port)
        await fetch_metadata("127.0.0.1", peer.port, ["t"])
        await asyncio.wait_for(peer.ended.wait(), 5)

    asked: list[Any] = [decode_request(frame).entity for frame in peer.asked]
    assert asked[0].topics is None
    assert [topic.name for topic in asked[1].topics] == ["t"]
    assert not asked[1].allow_auto_topic_creation
