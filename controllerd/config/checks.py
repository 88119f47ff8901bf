"""Rules that concern several keys, or one key's meaning: what is well-formed and still cannot work."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from controllerd.config.kafka_names import named
from controllerd.config.model import Address
from controllerd.config.versions import LAST_WITHOUT_ALTER_PARTITION, parse_version
from controllerd.core.model import OUR_IDS, Endpoint

_SHORTEST_SESSION_MS: Final = 1_000


def contradictions(values: Mapping[str, object]) -> list[str]:
    """Every broken rule as a sentence. ``values`` holds only what was given and well-formed."""
    return [*_node(values), *_session(values), *_listeners(values), *_mode(values), *_addresses(values)]


def _node(values: Mapping[str, object]) -> Iterator[str]:
    node_id = values.get("node.id")
    if isinstance(node_id, int) and node_id not in OUR_IDS:
        yield f"node.id: {node_id} is not between {OUR_IDS[0]} and {OUR_IDS[-1]}, the ids kept apart from brokers' ids"


def _session(values: Mapping[str, object]) -> Iterator[str]:
    session_ms = values.get("zookeeper.session_timeout_ms")
    if isinstance(session_ms, int) and session_ms < _SHORTEST_SESSION_MS:
        yield (
            f"{named('zookeeper.session_timeout_ms')}: {session_ms} is too small, at least {_SHORTEST_SESSION_MS}: "
            "a shorter pause of this process would cost the role"
        )


def _listeners(values: Mapping[str, object]) -> Iterator[str]:
    for name, count in Counter(endpoint.listener for endpoint in _endpoints(values)).items():
        if count > 1:
            yield f"kafka.listeners: the listener name {name} is there {count} times"


def _mode(values: Mapping[str, object]) -> Iterator[str]:
    version = values.get("kafka.inter_broker_protocol_version", "3.9")
    hidden = values.get("kafka.mode") == "hidden"
    if hidden and isinstance(version, str) and parse_version(version) > LAST_WITHOUT_ALTER_PARTITION:
        yield (
            f"kafka.mode: hidden needs kafka.inter_broker_protocol_version 2.6 or below, it is {version}: "
            "newer brokers send requests to the controller"
        )
    names = {endpoint.listener for endpoint in _endpoints(values)}
    inter_broker = str(values.get("kafka.inter_broker_listener_name", "PLAINTEXT")).upper()
    if names and inter_broker not in names:
        listed = ", ".join(sorted(names))
        yield f"{named('kafka.inter_broker_listener_name')}: {inter_broker} is not among kafka.listeners ({listed})"


def control_plane_problems(values: Mapping[str, object], control_plane: str | None) -> list[str]:
    """Brokers with a control plane listener send ISR changes over it, and ask to shut down over the other one."""
    if control_plane is None or values.get("kafka.mode") == "hidden":
        return []
    problems = []
    names = {endpoint.listener for endpoint in _endpoints(values)}
    if names and control_plane not in names:
        listed = ", ".join(sorted(names))
        problems.append(f"kafka.listeners: brokers look for their controller on {control_plane}, not on {listed}")
    if values.get("kafka.mode") == "internal":
        problems.append("kafka.mode: internal shows one listener, and brokers with a control plane listener need two")
    return problems


def _addresses(values: Mapping[str, object]) -> Iterator[str]:
    http = values.get("http.listen", Address("127.0.0.1", 9191))
    taken = [Address(endpoint.host, endpoint.port) for endpoint in _endpoints(values)]
    taken += [http] if isinstance(http, Address) else []
    for address, count in Counter(address for address in taken if address.port).items():
        if count > 1:
            yield f"{address} is used {count} times by kafka.listeners and http.listen"


def _endpoints(values: Mapping[str, object]) -> tuple[Endpoint, ...]:
    listeners = values.get("kafka.listeners", ())
    return listeners if isinstance(listeners, tuple) else ()
