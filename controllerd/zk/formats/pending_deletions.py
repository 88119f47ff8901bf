"""Our own znodes: which replicas an absent broker must delete when it is back."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.zk import paths
from controllerd.zk.formats.fields import MAX_INT32, VersionInt, decode_format, encode_json

_PartitionInt = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]


class _Topic(msgspec.Struct):
    topic: str
    partitions: list[_PartitionInt]
    topic_id: str | None = None


class _Debt(msgspec.Struct):
    version: VersionInt
    owed: list[_Topic]


_DEBT: Final = msgspec.json.Decoder(_Debt)


def decode_pending_deletions(broker: BrokerId, data: bytes | None) -> dict[TopicPartition, str | None]:
    """Decode a child of ``/controllerd/owed_deletions``: each partition with the id of its topic."""
    found = decode_format(paths.pending_deletions(broker), data, _DEBT, (1,))
    return {TopicPartition(t.topic, partition): t.topic_id for t in found.owed for partition in t.partitions}


def encode_pending_deletions(owed: Mapping[TopicPartition, str | None]) -> bytes:
    """Encode what a broker owes, a topic at a time."""
    topics: dict[tuple[str, str | None], list[int]] = {}
    for tp, topic_id in sorted(owed.items()):
        topics.setdefault((tp.topic, topic_id), []).append(tp.partition)
    rows = [{"topic": t, "topic_id": i, "partitions": partitions} for (t, i), partitions in topics.items()]
    return encode_json({"version": 1, "owed": rows})
