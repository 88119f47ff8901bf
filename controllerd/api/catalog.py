"""The APIs that this node serves itself, relays to brokers, or refuses (``wire.md`` A.6 and D.1)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controllerd.api.shared_versions import overlap
from wire.versions import ApiKey, VersionRange

NATIVE: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        ApiKey.METADATA: VersionRange(0, 12),
        ApiKey.CONTROLLED_SHUTDOWN: VersionRange(0, 3),
        ApiKey.LIST_GROUPS: VersionRange(0, 5),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.CREATE_TOPICS: VersionRange(0, 7),
        ApiKey.DELETE_TOPICS: VersionRange(0, 6),
        ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(0, 4),
        ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(0, 4),
        ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
        ApiKey.ELECT_LEADERS: VersionRange(0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.ALTER_PARTITION: VersionRange(0, 3),
        ApiKey.UPDATE_FEATURES: VersionRange(0, 1),
        ApiKey.ENVELOPE: VersionRange(0, 0),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
        ApiKey.LIST_TRANSACTIONS: VersionRange(0, 1),
        ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
    }
)
"""The APIs that we answer ourselves, at least in part.

Without AllocateProducerIds, brokers would block their producer ids until a restart (G-3).
"""

ADMIN: Final = frozenset(
    {
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    }
)
"""Native APIs of operators: admin clients send them to the active controller."""

MUTATIONS: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})
"""Native APIs of operators too, but with rights per topic and with quotas (KIP-599)."""

FORWARDED: Final = ADMIN | MUTATIONS
"""Native APIs that brokers may pass on in an envelope.

Other requests are refused: a relay would hand them to a broker, which would forward them again.
"""

PARTLY_RELAYED: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
"""Native APIs whose requests may go to a broker all the same: only versions that brokers know are advertised."""

NEVER_RELAYED: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""Requests of the controller to brokers, of brokers to the controller, and those about the client's own identity."""

_DESCRIBE_QUORUM: Final = 55
UNWANTED: Final = frozenset(
    {
        _DESCRIBE_QUORUM,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""APIs of KRaft. A client that sees them prefers them to the APIs that a cluster in ZooKeeper mode serves."""

KNOWN: Final = frozenset(int(key) for key in ApiKey)
"""Every known API; a frame with another key is no request."""
_NOT_RELAYABLE: Final = frozenset(NATIVE) | NEVER_RELAYED | UNWANTED


def is_relayable(api_key: int) -> bool:
    """Return whether every request of this API is relayed to a broker."""
    return api_key in KNOWN and api_key not in _NOT_RELAYABLE


def advertised(shared: Mapping[int, VersionRange]) -> dict[int, VersionRange]:
    """Return the APIs that ApiVersions lists: native APIs, and the relayed APIs that all brokers serve."""
    ranges: dict[int, VersionRange] = dict(NATIVE)
    for api_key, versions in shared.items():
        if is_relayable(api_key):
            ranges[api_key] = versions
        elif api_key in PARTLY_RELAYED and (both := overlap(NATIVE[api_key], versions)) is not None:
            ranges[api_key] = both
    return ranges
