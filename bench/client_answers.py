"""The answers of a stub to clients: Metadata (version 12) of the prepared cluster, and its settings (version 1)."""

from collections.abc import Iterable, Mapping

from bench import layout
from controllerd.core.model import BrokerId
from wire.primitives import CLASSIC, FLEXIBLE, INT16, INT32, topic_id_bytes
from wire.versions import VersionRange

METADATA_VERSIONS = VersionRange(12, 12)
_NO_NUMBER = INT32.pack(-(2**31))
"""The value of authorized operations that the request does not ask for."""
_BROKER = 4
_DEFAULT = 5
"""The source of a setting that has its default value."""


def metadata(partitions: int, ports: Mapping[BrokerId, int], host: str) -> bytes:
    """Return the body of a Metadata response for all topics, in which every preferred replica leads."""
    topics = partitions // layout.TOPIC_PARTITIONS
    return b"".join((
        INT32.pack(0),
        _array(_node(broker, host, port) for broker, port in ports.items()),
        FLEXIBLE.nullable_string(None),
        INT32.pack(-1),
        _array(_topic(layout.name(layout.OLD, number)) for number in range(topics)),
        FLEXIBLE.tags,
    ))  # fmt: skip


def _array(items: Iterable[bytes]) -> bytes:
    every = list(items)
    return FLEXIBLE.count(len(every)) + b"".join(every)


def _node(broker: BrokerId, host: str, port: int) -> bytes:
    rack = FLEXIBLE.nullable_string(None)
    return INT32.pack(broker) + FLEXIBLE.string(host) + INT32.pack(port) + rack + FLEXIBLE.tags


def _topic(name: str) -> bytes:
    rows = _array(map(_partition, range(layout.TOPIC_PARTITIONS)))
    head = INT16.pack(0) + FLEXIBLE.nullable_string(name) + topic_id_bytes(layout.topic_id(name)) + b"\x00"
    return head + rows + _NO_NUMBER + FLEXIBLE.tags


def _partition(number: int) -> bytes:
    ids = layout.replicas(number)
    replicas = _array(map(INT32.pack, ids))
    numbers = INT16.pack(0) + b"".join(map(INT32.pack, (number, ids[0], 0)))
    return numbers + replicas + replicas + FLEXIBLE.count(0) + FLEXIBLE.tags


def settings() -> bytes:
    """Return the body of a DescribeConfigs response: one setting with its default value."""
    row = CLASSIC.string("min.insync.replicas") + CLASSIC.nullable_string("1") + bytes((0, _DEFAULT, 0))
    named = bytes((_BROKER,)) + CLASSIC.string("1")
    result = INT16.pack(0) + CLASSIC.nullable_string(None) + named + CLASSIC.count(1) + row + CLASSIC.count(0)
    return INT32.pack(0) + CLASSIC.count(1) + result
