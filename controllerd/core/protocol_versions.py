"""The optional behaviour that an ``inter.broker.protocol.version`` allows: KIP-497, KIP-516, KIP-584, KIP-704."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controllerd.core.model import Features
from controllerd.core.releases import NEWEST, OLDEST, Release

_PATTERN: Final = re.compile(r"(\d)\.(\d{1,2})(?:-IV(\d))?")
_BROKER_PATTERN: Final = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?:-IV(\d+))?")
_LAST_STEPS: Final[Mapping[tuple[int, int], int]] = MappingProxyType({
    (2, 0): 1, (2, 1): 2, (2, 2): 1, (2, 3): 1, (2, 4): 1, (2, 5): 0, (2, 6): 0, (2, 7): 2, (2, 8): 1,
    (3, 0): 1, (3, 1): 0, (3, 2): 0, (3, 3): 3, (3, 4): 0, (3, 5): 2, (3, 6): 2, (3, 7): 4, (3, 8): 0, (3, 9): 0,
})  # fmt: skip
"""The last step of each release (``MetadataVersion``): ``2.7`` means 2.7-IV2, as in Kafka."""

ProtocolVersion = tuple[int, int, int]
LAST_WITHOUT_ALTER_PARTITION: Final[ProtocolVersion] = (2, 6, 9)
LOWEST: Final = "2.0"
"""The lowest version that can be configured; it allows none of the optional behaviour."""

FIRST_WITH_FEATURES: Final = "2.7-IV0"
"""The first version with ``/feature`` (KIP-584)."""
FIRST_WITH_TOPIC_IDS: Final = "2.8-IV0"
"""The first version with topic ids (KIP-516)."""
FIRST_WITH_FEATURES_2: Final = "3.3-IV0"
"""The first version that writes ``/feature`` in its second format."""


def parse_version(text: str) -> ProtocolVersion:
    """Return major, minor and step of ``3.9`` or ``3.9-IV0``. :raises ValueError: no release with ZooKeeper mode."""
    match = _PATTERN.fullmatch(text)
    if match is None or (int(match[1]), int(match[2])) not in _LAST_STEPS:
        raise ValueError(f"{text!r} is not a protocol version between 2.0 and 3.9 (like 3.9 or 2.8-IV1)")
    release = int(match[1]), int(match[2])
    return *release, int(match[3]) if match[3] else _LAST_STEPS[release]


def parse_broker_version(text: str) -> ProtocolVersion:
    """Return the version that a broker names; it may be older than any that can be configured (``0.10.2-IV0``).

    :raises ValueError: it is no version.
    """
    match = _BROKER_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a protocol version")
    release = int(match[1]), int(match[2])
    return *release, int(match[3]) if match[3] else _LAST_STEPS.get(release, 0)


def release_of_protocol(inter_broker_protocol_version: str) -> Release:
    """Return the served release that a protocol version is named for; an older version stands for the oldest one.

    :raises ValueError: it is no version.
    """
    major, minor, _ = parse_broker_version(inter_broker_protocol_version)
    return min(max(Release(major, minor), OLDEST), NEWEST)


def features_of(inter_broker_protocol_version: str) -> Features:
    """Return the optional behaviour that a protocol version allows. :raises ValueError: it is no such version."""
    return features_at(parse_version(inter_broker_protocol_version))


def features_at(version: ProtocolVersion) -> Features:
    """Return the optional behaviour that a version allows, whether or not it can be configured here."""
    return Features(
        topic_ids=version >= (2, 8, 0),
        leader_recovery=version >= (3, 2, 0),
        alter_partition=version >= (2, 7, 2),
        feature_versioning=version >= (2, 7, 0),
        feature_format=2 if version >= (3, 3, 0) else 1,
    )
