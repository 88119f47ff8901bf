"""Rules about several keys, or about the meaning of one: well-formed values that cannot work."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Final

from controllerd.config.kafka_names import named
from controllerd.config.model import Address
from controllerd.core.model import OUR_IDS, Endpoint
from controllerd.core.protocol_versions import LAST_WITHOUT_ALTER_PARTITION, parse_version

_SHORTEST_SESSION_MS: Final = 1_000
_BOUND: Final = "kafka.listeners"
_ADVERTISED: Final = "kafka.advertised_listeners"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104  # compared with, never bound
"""Hosts that mean every address of a machine. No client can connect to them."""


def contradictions(values: Mapping[str, object]) -> list[str]:
    """Every violated rule as a sentence. ``values`` has the given, well-formed values only."""
    rules = (
        _node, _session, _listeners, _advertised, _mode, _listeners_of_brokers, _addresses, _audit_heads, _http,
    )  # fmt: skip
    return [problem for rule in rules for problem in rule(values)]


def _node(values: Mapping[str, object]) -> Iterator[str]:
    node_id = values.get("node.id")
    if isinstance(node_id, int) and node_id not in OUR_IDS:
        yield f"node.id: {node_id} is not between {OUR_IDS[0]} and {OUR_IDS[-1]}, the ids kept apart from brokers' ids"


def _session(values: Mapping[str, object]) -> Iterator[str]:
    session_ms = values.get("zookeeper.session_timeout_ms")
    if isinstance(session_ms, int) and session_ms < _SHORTEST_SESSION_MS:
        yield (
            f"{named('zookeeper.session_timeout_ms')}: {session_ms} is too small, at least {_SHORTEST_SESSION_MS}: "
            "a pause of this process would cost it the role"
        )


def _audit_heads(values: Mapping[str, object]) -> Iterator[str]:
    destinations = [key for key in ("audit.head_file", "audit.head_journal", "audit.head_znode") if values.get(key)]
    if values.get("audit.head_key_file") and not destinations:
        yield "audit.head_key_file: nothing is signed; set audit.head_file, audit.head_journal or audit.head_znode too"
    if values.get("audit.head_znode") and values.get("controller.mode") == "observe":
        yield "audit.head_znode: cannot be with controller.mode observe, which writes nothing; set audit.head_file"


def _http(values: Mapping[str, object]) -> Iterator[str]:
    given = {key for key in _HTTP_SECURITY if values.get(f"http.{key}") is not None}
    if len(given & {"tls_certificate", "tls_key"}) == 1:
        (lacking,) = {"tls_certificate", "tls_key"} - given
        yield f"http.{lacking}: is missing, a certificate and its key are needed together"
    if "tls_client_ca" in given and "tls_certificate" not in given:
        yield "http.tls_client_ca: needs http.tls_certificate and http.tls_key too"
    listen = values.get("http.listen")
    if isinstance(listen, Address) and not listen.is_loopback:
        yield from unprotected(f"http.listen: {listen}", given)


_HTTP_SECURITY: Final = ("tls_certificate", "tls_key", "tls_client_ca", "read_token", "admin_token")


def unprotected(address: str, given: Collection[str]) -> Iterator[str]:
    """Yield the keys that are missing for an address which other machines can connect to.

    ``given`` are keys of ``http``.
    """
    lacking = [] if "tls_certificate" in given else ["TLS (http.tls_certificate, http.tls_key)"]
    lacking += [] if {"read_token", "admin_token"} & set(given) else ["a token (http.read_token or http.admin_token)"]
    if lacking:
        yield (
            f"{address} can be reached from other machines and needs {' and '.join(lacking)}; "
            "set them, or listen on 127.0.0.1 and let a proxy or an SSH tunnel connect to that"
        )


def _listeners(values: Mapping[str, object]) -> Iterator[str]:
    for key in (_BOUND, _ADVERTISED):
        for name, count in Counter(endpoint.listener for endpoint in _endpoints(values, key)).items():
            if count > 1:
                yield f"{key}: the listener name {name} is there {count} times"


def _advertised(values: Mapping[str, object]) -> Iterator[str]:
    """Check that each advertised address leads to one listener of this instance alone."""
    bound, advertised = _endpoints(values), _endpoints(values, _ADVERTISED)
    names = {endpoint.listener for endpoint in bound}
    for endpoint in advertised:
        if names and endpoint.listener not in names:
            yield f"{_ADVERTISED}: {endpoint.listener} is not among {_BOUND} ({', '.join(sorted(names))})"
        if endpoint.host in _WILDCARDS:
            yield f"{_ADVERTISED}: {endpoint.host} must be an address or name that brokers and clients can reach"
    for address, count in Counter(Address(each.host, each.port) for each in advertised if each.port).items():
        if count > 1:
            yield f"{_ADVERTISED}: {address} is there {count} times, and each listener needs a port of its own"
    names = {endpoint.listener for endpoint in advertised}
    for endpoint in bound:
        if endpoint.host in _WILDCARDS and endpoint.listener not in names:
            yield (
                f"{_BOUND}: brokers and clients connect to the host of {endpoint.listener}, and {endpoint.host} "
                f"must be an address or name they can reach; or name one in {_ADVERTISED}"
            )


def _mode(values: Mapping[str, object]) -> Iterator[str]:
    version = values.get("kafka.inter_broker_protocol_version", "3.9")
    hidden = values.get("kafka.mode") == "hidden"
    if hidden and isinstance(version, str) and parse_version(version) > LAST_WITHOUT_ALTER_PARTITION:
        yield (
            f"kafka.mode: hidden needs kafka.inter_broker_protocol_version 2.6 or below, it is {version}: "
            "newer brokers send requests to the controller"
        )


def _listeners_of_brokers(values: Mapping[str, object]) -> Iterator[str]:
    """Check that this instance has the listeners over which brokers connect to it.

    Brokers send AlterPartition over their control plane listener if they have one, and ControlledShutdown over the
    inter-broker listener. In hidden mode no broker advertises this instance, and its listeners serve operators only.
    """
    inter_broker = str(values.get("kafka.inter_broker_listener_name", "PLAINTEXT")).upper()
    control_plane = values.get("kafka.control_plane_listener_name")
    if control_plane == inter_broker:
        yield f"{named('kafka.control_plane_listener_name')}: {inter_broker} is the listener between brokers already"
    names = {endpoint.listener for endpoint in _endpoints(values)}
    if not names or values.get("kafka.mode") == "hidden":
        return
    listed = ", ".join(sorted(names))
    if inter_broker not in names:
        yield f"{named('kafka.inter_broker_listener_name')}: {inter_broker} is not among kafka.listeners ({listed})"
    if control_plane is not None and control_plane not in names:
        yield (
            f"{named('kafka.control_plane_listener_name')}: {control_plane} is not among kafka.listeners ({listed}), "
            "and brokers find their controller there"
        )


def _addresses(values: Mapping[str, object]) -> Iterator[str]:
    http = values.get("http.listen", Address("127.0.0.1", 9191))
    taken = [Address(endpoint.host, endpoint.port) for endpoint in _endpoints(values)]
    taken += [http] if isinstance(http, Address) else []
    for address, count in Counter(address for address in taken if address.port).items():
        if count > 1:
            yield f"{address} is used {count} times by kafka.listeners and http.listen"
    for one, other in combinations(set(taken), 2):
        if one.port == other.port != 0 and {one.host, other.host} & _WILDCARDS:
            yield f"port {one.port} is used twice by kafka.listeners and http.listen: one of them takes every address"


def _endpoints(values: Mapping[str, object], key: str = "kafka.listeners") -> tuple[Endpoint, ...]:
    listeners = values.get(key, ())
    return listeners if isinstance(listeners, tuple) else ()
