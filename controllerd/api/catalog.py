"""The APIs that this node serves itself, relays to brokers, or refuses (``wire.md`` A.6 and D.1)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controllerd.api.admin_calls import AdminCalls
from controllerd.api.broker_calls import BrokerCalls
from controllerd.api.client_calls import ClientCalls
from controllerd.api.native import apis_of
from controllerd.api.scram_calls import ScramCalls
from controllerd.api.shared_versions import overlap
from controllerd.api.topic_calls import TopicCalls
from wire.versions import ApiKey, VersionRange

FAMILIES: Final = (BrokerCalls, ClientCalls, AdminCalls, TopicCalls, ScramCalls)
"""The classes whose methods serve the native APIs."""
_APIS: Final = [api for family in FAMILIES for api in apis_of(family)]
_ABOUT_REQUESTS: Final = {ApiKey.API_VERSIONS: VersionRange(0, 4), ApiKey.ENVELOPE: VersionRange(0, 0)}
"""APIs that belong to no family: they are about the other APIs, and the dispatcher serves them before all others."""

NATIVE: Final[Mapping[int, VersionRange]] = MappingProxyType(
    dict(sorted((_ABOUT_REQUESTS | {api.key: api.versions for api in _APIS}).items()))
)
"""The APIs that we answer ourselves, at least in part."""

FORWARDED: Final = frozenset(api.key for api in _APIS if api.is_forwarded)
"""Native APIs that brokers may pass on in an envelope.

Other requests are refused: a relay would hand them to a broker, which would forward them again.
"""

PARTLY_RELAYED: Final = frozenset(api.key for api in _APIS if api.is_partly_relayed)
"""Native APIs whose requests may go to a broker all the same: only versions that brokers know are advertised."""

NEVER_RELAYED: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)
"""Requests of the controller to brokers, and those about the client's own identity: this node refuses them."""

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
