"""Pending replica deletions: the znodes with the replicas that an absent broker must delete when it is back."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.zk import paths
from controllerd.zk.formats.fields import MAX_INT32, VersionInt, decode_format, encode_json

_PartitionInt = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]


class _PendingTopic(msgspec.Struct):
    topic: str
    partitions: list[_PartitionInt]
    topic_id: str | None = None


class _PendingDeletions(msgspec.Struct):
    version: VersionInt
    topics: list[_PendingTopic] = msgspec.field(name="owed")


_PENDING_DELETIONS: Final = msgspec.json.Decoder(_PendingDeletions)


def decode_pending_deletions(broker: BrokerId, data: bytes | None) -> dict[TopicPartition, str | None]:
    """Decode a child of ``/controllerd/owed_deletions``: each partition with the id of its topic."""
    found = decode_format(paths.pending_deletions(broker), data, _PENDING_DELETIONS, (1,))
    return {TopicPartition(t.topic, partition): t.topic_id for t in found.topics for partition in t.partitions}


def encode_pending_deletions(pending: Mapping[TopicPartition, str | None]) -> bytes:
    """Encode the replicas that a broker must delete, one row for each topic."""
    topics: dict[tuple[str, str | None], list[int]] = {}
    for tp, topic_id in sorted(pending.items()):
        topics.setdefault((tp.topic, topic_id), []).append(tp.partition)
    rows = [{"topic": t, "topic_id": i, "partitions": partitions} for (t, i), partitions in topics.items()]
    return encode_json({"version": 1, "owed": rows})
