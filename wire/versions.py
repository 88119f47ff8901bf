"""The APIs and their versions: which versions are flexible (KIP-482), and which version to use with a peer."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from wire.errors import UnsupportedByPeer


class ApiKey(IntEnum):
    """API keys of the ZooKeeper era under Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CLIENT_METRICS_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


class VersionRange(NamedTuple):
    """The versions of one API that a peer supports, both ends included."""

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest


NEVER_FLEXIBLE: Final = 2**15
FLEXIBLE_FROM: Final[Mapping[int, int]] = MappingProxyType({
    0: 9, 1: 12, 2: 6, 3: 9, 4: 4, 5: 2, 6: 6, 7: 3, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3,
    17: NEVER_FLEXIBLE, 18: 3, 19: 5, 20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2,
    31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0,
    47: NEVER_FLEXIBLE, 48: 1, 49: 1, 50: 0, 51: 0, 56: 0, 57: 0, 58: 0, 60: 0, 61: 0, 64: 0, 65: 0, 66: 0, 67: 0,
    68: 0, 69: 0, 71: 0, 72: 0, 74: 0, 75: 0,
})  # fmt: skip
"""API key to the first version with compact types and tagged fields, headers included (KIP-482)."""

CONTROL_VERSIONS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType({
    ApiKey.LEADER_AND_ISR: VersionRange(0, 7),
    ApiKey.UPDATE_METADATA: VersionRange(0, 8),
    ApiKey.STOP_REPLICA: VersionRange(0, 4),
})  # fmt: skip
"""The versions of control requests that we can encode."""

TOPIC_IDS_FROM: Final[Mapping[ApiKey, int]] = MappingProxyType({ApiKey.LEADER_AND_ISR: 5, ApiKey.UPDATE_METADATA: 7})
"""The first version of a control request that carries topic ids (KIP-516)."""


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether this version uses compact types and tagged fields.

    An unknown API is taken for flexible (all new are).
    """
    return version >= FLEXIBLE_FROM.get(api_key, 0)


def request_header_version(api_key: int, version: int) -> int:
    """Return the version of the request header: 2 if flexible, else 1; ControlledShutdown 0 predates the client id."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if is_flexible(api_key, version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of the response header: 1 if flexible, else 0.

    ApiVersions always has 0: a client that sent too high a version must be able to decode the response (KIP-511).
    """
    return 1 if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS else 0


def choose(peer: VersionRange | None, ours: VersionRange) -> int | None:
    """Return the highest version that both ends support; None if there is none, or the peer lacks the API."""
    if peer is None:
        return None
    highest = min(peer.highest, ours.highest)
    return highest if highest >= max(peer.lowest, ours.lowest) else None


def choose_control(api_key: ApiKey, peer: Mapping[int, VersionRange], *, topic_ids: bool) -> int:
    """Return the version of a control request for this peer.

    Without ``topic_ids`` (a topic of LeaderAndIsr has no id, or no topic of UpdateMetadata has one: see
    ``control_requests.has_topic_ids``) the versions that carry them are avoided: a zero id makes a broker forget
    the id that it knows, and responses for several topics without id cannot be distinguished. The cluster's protocol
    version makes no difference here.

    :raises UnsupportedByPeer: no version is shared.
    """
    ours = CONTROL_VERSIONS[api_key]
    if not topic_ids and api_key in TOPIC_IDS_FROM:
        ours = VersionRange(ours.lowest, TOPIC_IDS_FROM[api_key] - 1)
    version = choose(peer.get(api_key), ours)
    if version is None:
        raise UnsupportedByPeer(f"{api_key.name}: peer speaks {peer.get(api_key)}, we speak {ours}")
    return version
