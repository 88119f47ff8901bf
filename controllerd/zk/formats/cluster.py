"""Znodes of the cluster as a whole: the controller and its epoch, the cluster id, features, producer ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from controllerd.errors import BadZnode
from controllerd.zk import paths
from controllerd.zk.formats.fields import (
    MAX_INT32,
    VersionInt,
    check_version,
    convert,
    decode_number,
    decode_object,
    encode_json,
    unknown_fields,
)

NO_KRAFT_CONTROLLER: Final = -1
_MAX_INT64: Final = 2**63 - 1


class ControllerZnode(NamedTuple):
    """The content of ``/controller``."""

    broker_id: int
    timestamp_ms: int | None = None
    instance: str | None = None
    """The uuid of the controllerd instance that holds it; None if a broker does."""
    kraft_controller_epoch: int = NO_KRAFT_CONTROLLER
    """0 or more: a KRaft controller leads the cluster, which is migrating; controllerd must not lead it."""


class _Controller(msgspec.Struct):
    brokerid: Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]
    timestamp: str | int | None = None
    instance: str | None = None
    kraft_controller_epoch: int | None = msgspec.field(default=None, name="kraftControllerEpoch")


def decode_controller(data: bytes | None) -> ControllerZnode:
    """Decode ``/controller`` of any format. After a ``BadZnode`` the holder is unknown, and is never replaced."""
    found = convert(paths.CONTROLLER, decode_object(paths.CONTROLLER, data), _Controller)
    timestamp = str(found.timestamp)
    return ControllerZnode(
        broker_id=found.brokerid,
        timestamp_ms=int(timestamp) if timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20 else None,
        instance=found.instance,
        kraft_controller_epoch=NO_KRAFT_CONTROLLER
        if found.kraft_controller_epoch is None
        else found.kraft_controller_epoch,
    )


def encode_controller(controller: ControllerZnode) -> bytes:
    """Encode ``/controller`` in format 2, with the field ``instance`` of controllerd where it is set."""
    document: dict[str, Any] = {
        "version": 2,
        "brokerid": controller.broker_id,
        "timestamp": str(controller.timestamp_ms or 0),
        "kraftControllerEpoch": controller.kraft_controller_epoch,
    }
    if controller.instance is not None:
        document["instance"] = controller.instance
    return encode_json(document)


def decode_controller_epoch(data: bytes | None) -> int:
    """Decode ``/controller_epoch``. After a ``BadZnode`` no election may be held before an operator repairs it."""
    return decode_number(paths.CONTROLLER_EPOCH, data)


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode ``/controller_epoch``."""
    return b"%d" % epoch


class _ClusterId(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1)]


def decode_cluster_id(data: bytes | None) -> str:
    """Decode ``/cluster/id``."""
    return convert(paths.CLUSTER_ID, decode_object(paths.CLUSTER_ID, data), _ClusterId).id


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode ``/cluster/id``, whose version is text."""
    return encode_json({"version": "1", "id": cluster_id})


class FinalizedFeature(NamedTuple):
    """The finalized levels of one feature (KIP-584)."""

    max_version_level: int
    min_version_level: int = 1
    """Present in format 1 only."""


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """The content of ``/feature``; ``extra`` are its unknown fields."""

    enabled: bool
    features: Mapping[str, FinalizedFeature] = field(default_factory=dict)
    format_version: int = 2
    extra: Mapping[str, object] = field(default_factory=dict)


_Level = Annotated[int, msgspec.Meta(ge=0, le=32767)]


class _Levels(msgspec.Struct):
    max_version_level: _Level
    min_version_level: _Level = 1


class _Feature(msgspec.Struct):
    version: VersionInt
    status: Annotated[int, msgspec.Meta(ge=0, le=1)]
    features: dict[str, _Levels]


def decode_feature(data: bytes | None) -> FeatureZnode:
    """Decode ``/feature``, formats 1 and 2."""
    raw = decode_object(paths.FEATURE, data)
    found = convert(paths.FEATURE, raw, _Feature)
    check_version(paths.FEATURE, found.version, (1, 2))
    features = {n: FinalizedFeature(f.max_version_level, f.min_version_level) for n, f in found.features.items()}
    return FeatureZnode(bool(found.status), features, found.version, unknown_fields(raw, _Feature))


def encode_feature(feature: FeatureZnode) -> bytes:
    """Encode ``/feature`` in its format; only format 1 has minimum levels."""
    document: dict[str, Any] = {"version": feature.format_version, "status": int(feature.enabled)}
    document["features"] = {
        name: levels._asdict() if feature.format_version == 1 else {"max_version_level": levels.max_version_level}
        for name, levels in feature.features.items()
    }
    return encode_json(document | dict(feature.extra))


class ProducerIdBlockZnode(NamedTuple):
    """The last allocated block of producer ids, both ends included, and its broker (KIP-730)."""

    broker_id: int
    first: int
    last: int


class _ProducerIdBlock(msgspec.Struct):
    version: VersionInt
    broker: int
    block_start: Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}$")]
    block_end: Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}$")]


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlockZnode | None:
    """Decode ``/latest_producer_id_block``; None if no block was ever allocated (null or empty data)."""
    if not data:
        return None
    path = paths.LATEST_PRODUCER_ID_BLOCK
    found = convert(path, decode_object(path, data), _ProducerIdBlock)
    check_version(path, found.version, (1,))
    block = ProducerIdBlockZnode(found.broker, int(found.block_start), int(found.block_end))
    if not block.first <= block.last <= _MAX_INT64:
        raise BadZnode(path, f"block {block.first} to {block.last} is no range of producer ids")
    return block


def encode_producer_id_block(block: ProducerIdBlockZnode) -> bytes:
    """Encode ``/latest_producer_id_block``; its numbers are text, as JSON readers round large ones."""
    return encode_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )
