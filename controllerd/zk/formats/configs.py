"""Config overrides and the notifications that make brokers read them again."""

from collections.abc import Mapping
from typing import Final

import msgspec

from controllerd.errors import BadZnode
from controllerd.zk import paths
from controllerd.zk.formats.fields import (
    VersionInt,
    check_version,
    convert,
    decode_format,
    decode_object,
    encode_json,
    unknown_fields,
)


class _Config(msgspec.Struct):
    version: VersionInt
    config: dict[str, str]


class _ConfigChange(msgspec.Struct):
    version: VersionInt
    entity_path: str | None = None
    entity_type: str | None = None
    entity_name: str | None = None


_CONFIG_CHANGE: Final = msgspec.json.Decoder(_ConfigChange)


def decode_config(path: str, data: bytes | None) -> dict[str, str]:
    """Decode the overrides of a topic or broker; null and empty data mean none."""
    if not data:
        return {}
    found = convert(path, decode_object(path, data), _Config)
    check_version(path, found.version, (1,))
    return found.config


def config_extra(path: str, data: bytes | None) -> dict[str, object]:
    """Return the unknown fields of a config znode, for ``encode_config``."""
    return unknown_fields(decode_object(path, data), _Config) if data else {}


def encode_config(config: Mapping[str, str], extra: Mapping[str, object] | None = None) -> bytes:
    """Encode the overrides of a topic or broker."""
    return encode_json({"version": 1, "config": dict(config), **(extra or {})})


def decode_config_change(child: str, data: bytes | None) -> str:
    """Decode a child of ``/config/changes``: the entity below ``/config`` that changed, such as ``topics/orders``."""
    path = paths.config_change(child)
    found = decode_format(path, data, _CONFIG_CHANGE, (1, 2))
    if found.version == 1 and found.entity_type and found.entity_name:
        return f"{found.entity_type}/{found.entity_name}"
    if found.version == 1 or not found.entity_path:
        raise BadZnode(path, "names no entity")
    return found.entity_path


def encode_config_change(entity_path: str) -> bytes:
    """Encode a notification of a config change, in format 2."""
    return encode_json({"version": 2, "entity_path": entity_path})
