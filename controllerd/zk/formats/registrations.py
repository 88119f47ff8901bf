"""Broker registrations, formats 1 to 5: endpoints, rack and supported features of a broker."""

import re
from typing import Annotated, Any, Final

import msgspec

from controllerd.core.model import OUR_IDS, Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.errors import BadZnode
from controllerd.zk import paths
from controllerd.zk.formats.fields import VersionInt, check_version, convert, decode_object, encode_json

NEWEST_BROKER_FORMAT: Final = 5
_FIRST_FORMAT_WITH_ENDPOINTS: Final = 2
_FIRST_FORMAT_WITH_RACK: Final = 3
_FIRST_FORMAT_WITH_LISTENERS: Final = 4
_FIRST_FORMAT_WITH_FEATURES: Final = 5
_URI: Final = re.compile(r"([^:/]+)://(?:\[([0-9a-zA-Z%._:-]+)\]|([0-9a-zA-Z%._-]+)):([0-9]{1,5})")
_FeatureVersion = Annotated[int, msgspec.Meta(ge=0, le=32767)]


class _FeatureRange(msgspec.Struct):
    min_version: _FeatureVersion
    max_version: _FeatureVersion


class _Instance(msgspec.Struct):
    instance: str | None = None


class _Registration(msgspec.Struct):
    version: VersionInt
    host: str | None = None
    port: int = -1
    endpoints: list[str] | None = None
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    features: dict[str, _FeatureRange] | None = None


def decode_broker(broker_id: BrokerId, data: bytes | None, epoch: int) -> Broker:
    """Decode a registration; ``epoch`` is the czxid of the znode. A broker is not served after a ``BadZnode``."""
    path = paths.broker(broker_id)
    registration = convert(path, decode_object(path, data), _Registration)
    check_version(path, registration.version, range(1, NEWEST_BROKER_FORMAT + 1))
    return Broker(
        id=broker_id,
        epoch=epoch,
        endpoints=_endpoints(path, registration),
        rack=registration.rack,
        features=_features(path, registration),
    )


def _endpoints(path: str, registration: _Registration) -> tuple[Endpoint, ...]:
    if registration.version < _FIRST_FORMAT_WITH_ENDPOINTS:
        return (_checked_endpoint(path, Endpoint("PLAINTEXT", registration.host or "", registration.port)),)
    protocols = _protocols(path, registration)
    endpoints = tuple(_parse_endpoint(path, uri, protocols) for uri in registration.endpoints or ())
    if not endpoints:
        raise BadZnode(path, "no endpoints")
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise BadZnode(path, f"two endpoints of one listener in {names}")
    return endpoints


def _protocols(path: str, registration: _Registration) -> dict[str, SecurityProtocol]:
    """Return the protocol of each listener; without a map, a listener is named for its protocol."""
    mapping = registration.listener_security_protocol_map
    if mapping is None:
        return dict(SecurityProtocol.__members__)
    unknown = {protocol for protocol in mapping.values() if protocol.upper() not in SecurityProtocol.__members__}
    if unknown:
        raise BadZnode(path, f"unknown security protocol {min(unknown)!r}")
    return {listener: SecurityProtocol[protocol.upper()] for listener, protocol in mapping.items()}


def _parse_endpoint(path: str, uri: str, protocols: dict[str, SecurityProtocol]) -> Endpoint:
    match = _URI.fullmatch(uri)
    if match is None:
        raise BadZnode(path, f"bad endpoint {uri!r}")
    listener, host = match[1].upper(), match[2] or match[3]
    if listener not in protocols:
        raise BadZnode(path, f"no security protocol for listener {listener!r}")
    return _checked_endpoint(path, Endpoint(listener, host, int(match[4]), protocols[listener]))


def _checked_endpoint(path: str, endpoint: Endpoint) -> Endpoint:
    if not endpoint.host:
        raise BadZnode(path, f"no host for listener {endpoint.listener!r}")
    if not 0 < endpoint.port <= 65535:
        raise BadZnode(path, f"bad port {endpoint.port} for listener {endpoint.listener!r}")
    try:
        endpoint.host.encode("idna")
    except UnicodeError as error:
        raise BadZnode(path, f"{endpoint.host!r} of listener {endpoint.listener!r} is no host name") from error
    return endpoint


def _features(path: str, registration: _Registration) -> dict[str, tuple[int, int]]:
    features = {name: (f.min_version, f.max_version) for name, f in (registration.features or {}).items()}
    for name, (lowest, highest) in features.items():
        if lowest > highest:
            raise BadZnode(path, f"feature {name!r} supports {lowest} to {highest}")
    return features


def encode_broker(
    broker: Broker, *, format_version: int = NEWEST_BROKER_FORMAT, jmx_port: int = -1, timestamp_ms: int = 0
) -> bytes:
    """Encode a registration in a format; host and port are those of the first PLAINTEXT endpoint."""
    plain = next((e for e in broker.endpoints if e.security_protocol is SecurityProtocol.PLAINTEXT), None)
    document: dict[str, Any] = {
        "version": format_version,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": jmx_port,
        "timestamp": str(timestamp_ms),
    }
    if format_version >= _FIRST_FORMAT_WITH_ENDPOINTS:
        document["endpoints"] = [_format_endpoint(endpoint) for endpoint in broker.endpoints]
    if format_version >= _FIRST_FORMAT_WITH_RACK and broker.rack is not None:
        document["rack"] = broker.rack
    if format_version >= _FIRST_FORMAT_WITH_LISTENERS:
        document["listener_security_protocol_map"] = {e.listener: e.security_protocol.name for e in broker.endpoints}
    if format_version >= _FIRST_FORMAT_WITH_FEATURES:
        document["features"] = {
            name: {"min_version": lowest, "max_version": highest} for name, (lowest, highest) in broker.features.items()
        }
    return encode_json(document)


def encode_controller_registration(entry: Broker, instance: str, *, timestamp_ms: int) -> bytes:
    """Encode the registration of an instance of controllerd; ``instance`` distinguishes it from a broker's.

    Format 4, the newest that brokers of 2.6 write: every release from 2.6 to 3.9 reads it. It names
    no features, so that a built-in controller that enforces finalized features (KIP-584) does not
    count it among the brokers.
    """
    document = decode_object(
        paths.broker(entry.id),
        encode_broker(entry, format_version=_FIRST_FORMAT_WITH_LISTENERS, timestamp_ms=timestamp_ms),
    )
    return encode_json({**document, "instance": instance})


def decode_controller_registration(broker_id: BrokerId, data: bytes | None) -> str | None:
    """Return the uuid of the instance of controllerd that wrote a registration; None for every other content.

    Content that cannot be decoded never counts as controllerd's, because such registrations may
    be deleted.
    """
    if broker_id not in OUR_IDS:
        return None
    try:
        return convert(paths.broker(broker_id), decode_object(paths.broker(broker_id), data), _Instance).instance
    except BadZnode:
        return None


def _format_endpoint(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"
