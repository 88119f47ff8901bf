"""The keys of a broker's ``server.properties`` that concern a controller, and the ones that must not be ignored."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import javaproperties

from controllerd.config.kafka_names import KEYS
from controllerd.core.cluster_settings import MUST_BE_ABSENT, MUST_BE_FALSE

_LISTENER_NAME: Final = "inter.broker.listener.name"
_CONTROL_PLANE: Final = "control.plane.listener.name"
_PROTOCOL: Final = "security.inter.broker.protocol"
_PROTOCOL_MAP: Final = "listener.security.protocol.map"
_ZOOKEEPER_TLS: Final = "zookeeper.ssl."
_SECURITY: Final = {"ssl.": "TLS", "sasl.": "SASL"}
_ABOUT_LISTENERS: Final = frozenset(
    {"listeners", "advertised.listeners", _LISTENER_NAME, _CONTROL_PLANE, _PROTOCOL, _PROTOCOL_MAP}
)
_NOT_SUPPORTED: Final = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_WITHOUT_MINOR: Final = 2

_MUST_BE_ABSENT: Final = {
    **MUST_BE_ABSENT,
    "process.roles": "this is the file of a KRaft node, and controllerd leads ZooKeeper-mode clusters",
}


class ServerProperties(NamedTuple):
    """The keys of a file that concern a controller."""

    values: Mapping[str, str]
    """The values as text, by controllerd's keys."""
    ignored: tuple[str, ...] = ()
    """The names in the file that a controller does not use."""
    problems: Sequence[str] = ()
    is_readable: bool = True
    """Whether the file could be read."""


NOTHING: Final = ServerProperties({})


def read_server_properties(file: Path) -> ServerProperties:
    """Return the content of the file, and its problems. Bytes are Latin-1, as Java reads them."""
    try:
        text = file.read_text(encoding="latin-1")
        given = {name: value.strip() for name, value in javaproperties.loads(text).items()}
    except OSError as error:
        return ServerProperties({}, problems=[f"cannot read {file}: {error.strerror}"], is_readable=False)
    except javaproperties.InvalidUEscapeError as error:
        return ServerProperties({}, problems=[f"{file} is not a properties file: {error}"], is_readable=False)
    listener = _inter_broker_listener(given)
    values = {KEYS[name]: value for name, value in given.items() if name in KEYS and (value or name != _CONTROL_PLANE)}
    _shorten_version(values)
    if given.keys() & _ABOUT_LISTENERS:
        values["kafka.inter_broker_listener_name"] = listener
    problems = (*_refusals(given), *_security_problems(given, listener), *_listener_problems(given, listener))
    return ServerProperties(
        values,
        tuple(sorted(given.keys() - KEYS.keys() - _ABOUT_LISTENERS)),
        [f"{name} ({file}): {problem}" for name, problem in problems],
    )


def _refusals(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield settings that must not be ignored: unsupported ones, and ones with another meaning for a broker."""
    for name, value in given.items():
        if name in MUST_BE_FALSE and value.lower() != "false":
            yield name, MUST_BE_FALSE[name]
        elif name in _MUST_BE_ABSENT and value:
            yield name, _MUST_BE_ABSENT[name]
        elif name.startswith(_ZOOKEEPER_TLS) and (name, value.lower()) != (f"{_ZOOKEEPER_TLS}client.enable", "false"):
            yield name, "TLS to ZooKeeper is not supported"


def _security_problems(given: Mapping[str, str], inter_broker: str) -> Iterator[tuple[str, str]]:
    """Yield TLS and SASL settings of all listeners, or of a listener between brokers and controllers.

    Settings of a listener for clients are ignored.
    """
    ours = {name.lower() for name in (inter_broker, given.get(_CONTROL_PLANE)) if name}
    prefixes = {f"{scope}{kind}": what for kind, what in _SECURITY.items() for scope in ("", *_scopes(ours))}
    for name, value in given.items():
        found = next((what for prefix, what in prefixes.items() if name.startswith(prefix)), None)
        if value and found is not None:
            yield (
                name,
                (
                    f"{found} is not supported yet; a setting for a listener of clients alone is ignored if it is "
                    "under listener.name.<listener>"
                ),
            )


def _scopes(listeners: set[str]) -> list[str]:
    return sorted(f"listener.name.{listener}." for listener in listeners)


def _shorten_version(values: dict[str, str]) -> None:
    """Shorten a version as Kafka does, from 3.9.1 to 3.9: the first two numbers determine the protocol."""
    key = "kafka.inter_broker_protocol_version"
    parts = values.get(key, "").split(".")
    if len(parts) > _WITHOUT_MINOR and parts[0] != "0":
        values[key] = ".".join(parts[:_WITHOUT_MINOR])


# -- the listener ------------------------------------------------------------------------------------------------------


def _inter_broker_listener(given: Mapping[str, str]) -> str:
    """The configured name, or else the name of the security protocol between brokers."""
    return given.get(_LISTENER_NAME) or given.get(_PROTOCOL) or "PLAINTEXT"


def _listener_problems(given: Mapping[str, str], inter_broker: str) -> Iterator[tuple[str, str]]:
    """Yield problems of listeners between brokers and controllers: unsupported, or missing at the broker."""
    if _LISTENER_NAME in given and _PROTOCOL in given:
        yield _LISTENER_NAME, f"a broker takes either this or {_PROTOCOL}"
    protocols = _protocols(given.get(_PROTOCOL_MAP, ""))
    declared = _declared(given.get("advertised.listeners") or given.get("listeners", ""))
    configured_by = _LISTENER_NAME if _LISTENER_NAME in given else _PROTOCOL
    for key, listener in ((configured_by, inter_broker), (_CONTROL_PLANE, given.get(_CONTROL_PLANE, ""))):
        name = listener.upper()
        protocol = protocols.get(name, name)
        if key == _CONTROL_PLANE and not given.get(_CONTROL_PLANE):
            continue
        if protocol in _NOT_SUPPORTED:
            yield key, f"listener {name} uses {protocol}, which is not supported yet; only PLAINTEXT is"
        if declared and name not in declared:
            yield key, f"listener {name} is not among the broker's listeners: {', '.join(sorted(declared))}"


def _protocols(text: str) -> dict[str, str]:
    """Parse ``NAME:PROTOCOL,...`` into protocols by name. Kafka's default maps a protocol's name to itself."""
    pairs = (item.partition(":") for item in text.split(","))
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}


def _declared(text: str) -> set[str]:
    return {item.partition("://")[0].strip().upper() for item in text.split(",") if item.strip()}
