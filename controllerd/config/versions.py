"""What an ``inter.broker.protocol.version`` allows: the gates of KIP-497, KIP-516, KIP-584 and KIP-704 in one place."""

import re
from typing import Final

from controllerd.core.model import Features
from controllerd.core.releases import Release

_PATTERN: Final = re.compile(r"(\d)\.(\d{1,2})(?:-IV(\d))?")
_RELEASES: Final = frozenset({(2, minor) for minor in range(9)} | {(3, minor) for minor in range(10)})
_LATEST_STEP: Final = 9
"""``2.7`` without a step means the last step of that release, as in Kafka."""

ProtocolVersion = tuple[int, int, int]
LAST_WITHOUT_ALTER_PARTITION: Final[ProtocolVersion] = (2, 6, _LATEST_STEP)


def parse_version(text: str) -> ProtocolVersion:
    """Major, minor and step of ``3.9`` or ``3.9-IV0``. :raises ValueError: no release with a ZooKeeper controller."""
    match = _PATTERN.fullmatch(text)
    if match is None or (int(match[1]), int(match[2])) not in _RELEASES:
        raise ValueError(f"{text!r} is not a protocol version between 2.0 and 3.9 (like 3.9 or 2.8-IV1)")
    return int(match[1]), int(match[2]), int(match[3]) if match[3] else _LATEST_STEP


def release_of_protocol(inter_broker_protocol_version: str) -> Release:
    """Return the release that this protocol version is named for. :raises ValueError: it is no such version."""
    return Release(*parse_version(inter_broker_protocol_version)[:2])


def features_of(inter_broker_protocol_version: str) -> Features:
    """The optional behaviour that this protocol version allows. :raises ValueError: it is no such version."""
    version = parse_version(inter_broker_protocol_version)
    return Features(
        topic_ids=version >= (2, 8, 0),
        leader_recovery=version >= (3, 2, 0),
        alter_partition=version >= (2, 7, 2),
        feature_versioning=version >= (2, 7, 0),
        feature_format=2 if version >= (3, 3, 0) else 1,
    )
