"""Topic znodes: assignments and topic id, formats 1 to 3, with every unknown field kept for the rewrite."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from controllerd.core.model import ReplicaAssignment, TopicImage
from controllerd.core.soundness import topic_name_problem
from controllerd.errors import BadZnode, NewerZnode
from controllerd.zk import paths
from controllerd.zk.formats.fields import (
    MAX_INT32,
    BrokerInt,
    broker_ids,
    convert,
    decode_object,
    encode_json,
    unknown_fields,
)

NEWEST_TOPIC_FORMAT: Final = 3
_FIRST_FORMAT_WITH_REASSIGNMENT: Final = 2
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_RESERVED_TOPIC_IDS: Final = frozenset({"A" * 22, "A" * 21 + "Q"})
_SHARED: Final = 65_536


class _TopicZnode(msgspec.Struct):
    partitions: dict[str, tuple[BrokerInt, ...]]
    version: int = 1
    adding_replicas: dict[str, tuple[BrokerInt, ...]] = msgspec.field(default_factory=dict)
    removing_replicas: dict[str, tuple[BrokerInt, ...]] = msgspec.field(default_factory=dict)
    topic_id: str | None = None


class _PlainTopic(_TopicZnode, forbid_unknown_fields=True):
    """A topic znode without unknown fields."""


_PLAIN_DECODER: Final = msgspec.json.Decoder(_PlainTopic)


def decode_topic(name: str, data: bytes | None, *, version: int, czxid: int = 0) -> TopicImage:
    """Decode a topic znode whose data version is ``version``; a format newer than 3 is read, but must not be rewritten.

    Flaws of a single partition (duplicate replicas, ...) are kept in the image: ``core.soundness.assignment_flaw``
    judges each partition.

    :raises BadZnode: the whole topic cannot be used.
    """
    path = paths.topic(name)
    if (problem := topic_name_problem(name)) is not None:
        raise BadZnode(path, problem)
    topic, extra = _decode(path, data)
    if topic.version < 1:
        raise BadZnode(path, f"format version {topic.version} does not exist")
    return TopicImage(
        name=name,
        assignments=_assignments(path, topic),
        topic_id=_checked_topic_id(path, topic.topic_id),
        znode_version=version,
        format_version=topic.version,
        extra=extra,
        czxid=czxid,
    )


def _decode(path: str, data: bytes | None) -> tuple[_TopicZnode, Mapping[str, object]]:
    """Return the known and the unknown fields. The slow decoder is for znodes with unknown fields only."""
    try:
        return _PLAIN_DECODER.decode(data or b""), {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raw = decode_object(path, data)
        return convert(path, raw, _TopicZnode), unknown_fields(raw, _TopicZnode)


def _assignments(path: str, topic: _TopicZnode) -> dict[int, ReplicaAssignment]:
    adding, removing = topic.adding_replicas, topic.removing_replicas
    for field, partitions in (("adding_replicas", adding), ("removing_replicas", removing)):
        if stray := partitions.keys() - topic.partitions.keys():
            raise BadZnode(path, f"{field} names the unknown partition {min(stray)!r}")
    try:
        if adding or removing:
            return {
                _partition(key): ReplicaAssignment(
                    broker_ids(replicas), broker_ids(adding.get(key, ())), broker_ids(removing.get(key, ()))
                )
                for key, replicas in topic.partitions.items()
            }
        return {_partition(key): _settled(replicas) for key, replicas in topic.partitions.items()}
    except ValueError as error:
        raise BadZnode(path, str(error)) from error


@lru_cache(maxsize=_SHARED)
def _settled(replicas: tuple[int, ...]) -> ReplicaAssignment:
    """Return the assignment of a partition that is not being reassigned: one object for equal replicas."""
    return ReplicaAssignment(broker_ids(replicas))


@lru_cache(maxsize=_SHARED)
def _partition(key: str) -> int:
    if _PARTITION.fullmatch(key) is None or (number := int(key)) > MAX_INT32:
        raise ValueError(f"{key!r} is not a partition")
    return number


def _checked_topic_id(path: str, topic_id: str | None) -> str | None:
    if topic_id is not None and not is_topic_id(topic_id):
        raise BadZnode(path, f"topic id {topic_id!r} is not a base64url uuid")
    return topic_id


def is_topic_id(text: str) -> bool:
    """Whether this is a uuid in base64url without padding, other than the two that Kafka reserves (KIP-516)."""
    return _TOPIC_ID.fullmatch(text) is not None and text not in _RESERVED_TOPIC_IDS


def encode_topic(image: TopicImage) -> bytes:
    """Encode in format 3 if the topic has an id, else in the format it had (at least 2 while it is being reassigned).

    :raises NewerZnode: the topic was read in a newer format, so that a rewrite would lose unknown parts of it.
    """
    if image.format_version > NEWEST_TOPIC_FORMAT:
        reason = f"format version {image.format_version} is newer than {NEWEST_TOPIC_FORMAT} and must not be rewritten"
        raise NewerZnode(paths.topic(image.name), reason)
    version = _format_of(image)
    document: dict[str, Any] = {"version": version}
    document["partitions"] = {str(p): assignment.replicas for p, assignment in image.assignments.items()}
    if version >= _FIRST_FORMAT_WITH_REASSIGNMENT:
        document["adding_replicas"] = {str(p): a.adding for p, a in image.assignments.items() if a.adding}
        document["removing_replicas"] = {str(p): a.removing for p, a in image.assignments.items() if a.removing}
    if image.topic_id is not None:
        document["topic_id"] = image.topic_id
    return encode_json(document | dict(image.extra))


def _format_of(image: TopicImage) -> int:
    if image.topic_id is not None:
        return NEWEST_TOPIC_FORMAT
    if any(assignment.is_being_reassigned for assignment in image.assignments.values()):
        return max(image.format_version, _FIRST_FORMAT_WITH_REASSIGNMENT)
    return image.format_version
