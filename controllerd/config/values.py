"""Converts one configured value, from a file, a variable or a flag, to the type of its key."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args, get_origin

import msgspec

from controllerd.config.model import Address, Dialect, Secret
from controllerd.core.model import Endpoint, SecurityProtocol
from controllerd.core.protocol_versions import parse_version

_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\],]+)):([0-9]{1,5})")
_LISTENER: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)://(\S+)")
_HOST_FOR_BROKERS: Final = re.compile(r"[0-9A-Za-z%._:-]+")
"""The hosts that brokers can read in a registration (``EndPoint.uriParseExp``)."""
_MAX_PORT: Final = 65_535
SHORTEST_SECRET: Final = 16
"""The least number of characters of a token."""


def parse_address(text: str) -> Address:
    """Parse ``host:port`` or ``[v6]:port``. :raises ValueError: it is neither, or the port is out of range."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not host:port")
    if int(match[3]) > _MAX_PORT:
        raise ValueError(f"port {match[3]} of {text!r} is not between 0 and {_MAX_PORT}")
    return Address(match[1] or match[2], int(match[3]))


def parse_listener(text: str) -> Endpoint:
    """Parse ``NAME://host:port``.

    :raises ValueError: it is not of that form, not plaintext, or has a host that brokers cannot read.
    """
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not NAME://host:port")
    name, address = match[1].upper(), parse_address(match[2])
    if name in SecurityProtocol.__members__ and name != SecurityProtocol.PLAINTEXT.name:
        raise ValueError(f"{text!r}: {name} is not supported, only plaintext listeners are")
    if _HOST_FOR_BROKERS.fullmatch(address.host) is None:
        raise ValueError(
            f"{text!r}: brokers cannot read the host {address.host!r}; use letters, digits, '-', '.', '_' and '%' only"
        )
    return Endpoint(name, address.host, address.port, SecurityProtocol.PLAINTEXT)


def parse_listeners(raw: object) -> tuple[Endpoint, ...]:
    """Parse a list of listeners, or one text with commas. :raises ValueError: names every invalid listener."""
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("expected a list of NAME://host:port")
    listeners, wrong = [], []
    for item in items:
        try:
            listeners.append(parse_listener(item.strip()))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(listeners)


def parse_dialects(raw: object) -> tuple[str, ...]:
    """Parse a list of dialects, or one text with commas. :raises ValueError: there is no such dialect."""
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list | tuple):
        raise ValueError("expected a list of dialects")  # noqa: TRY004  # as for every invalid value
    return tuple(dict.fromkeys(_choice(get_args(Dialect), str(item).strip()) for item in items if item != ""))


def check_connect(text: str) -> str:
    """Check a ZooKeeper connect string, and return it. :raises ValueError: hosts, ports or chroot are malformed."""
    hosts, slash, chroot = text.partition("/")
    for host in hosts.split(","):
        if parse_address(host.strip() if ":" in host else f"{host.strip()}:2181").port == 0:
            raise ValueError(f"{host!r} has port 0")
    if slash and (chroot.endswith("/") or "//" in chroot or any(part in {".", ".."} for part in chroot.split("/"))):
        raise ValueError(f"chroot {slash + chroot!r} must be like /kafka, without empty or relative parts")
    return text


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(f"expected text, got {raw!r}")
    return raw.strip()


def _path(raw: object) -> Path:
    return raw if isinstance(raw, Path) else Path(_text(raw))


def _secret(raw: object) -> Secret:
    """Check a secret. The errors do not contain it."""
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("expected text: the secret, credential:NAME or file:PATH")
    secret = Secret(raw.strip())
    if not secret.is_reference and len(secret.configured) < SHORTEST_SECRET:
        raise ValueError(f"is shorter than {SHORTEST_SECRET} characters; make one with: openssl rand -hex 32")
    return secret


def _protocol_version(raw: object) -> str:
    parse_version(_text(raw))
    return _text(raw)


_BY_KEY: Final[Mapping[str, Callable[[object], object]]] = {
    "zookeeper.connect": lambda raw: check_connect(_text(raw)),
    "kafka.listeners": parse_listeners,
    "kafka.advertised_listeners": parse_listeners,
    "kafka.inter_broker_listener_name": lambda raw: _text(raw).upper(),  # Kafka's listener names are case-insensitive
    "kafka.control_plane_listener_name": lambda raw: _text(raw).upper(),
    "kafka.inter_broker_protocol_version": _protocol_version,
    "metrics.dialects": parse_dialects,
}
_BY_KIND: Final[Mapping[object, Callable[[object], object]]] = {
    Address: lambda raw: parse_address(_text(raw)),
    Secret | None: _secret,
    Path: _path,
    Path | None: _path,
    str: _text,
    str | None: _text,
}


def convert(key: str, kind: object, raw: object, *, from_text: bool) -> object:
    """Convert ``raw`` to the type ``kind`` of ``key``. With ``from_text``, numbers and booleans are read from text.

    :raises ValueError: with a sentence that gives the expected form.
    """
    parser = _BY_KEY.get(key) or _BY_KIND.get(kind)
    if parser is not None:
        return parser(raw)
    if get_origin(kind) is Literal:
        return _choice(get_args(kind), raw)
    return _number(kind, raw, from_text=from_text)


def _choice(choices: tuple[str, ...], raw: object) -> str:
    text = str(raw).lower()
    if text not in choices:
        raise ValueError(f"expected one of {', '.join(choices)}, got {raw!r}")
    return text


def _number(kind: object, raw: object, *, from_text: bool) -> object:
    try:
        value: object = msgspec.convert(raw, type=kind, strict=not from_text)
    except msgspec.ValidationError as error:
        wanted = str(error).replace("`", "").partition(", got")[0].removeprefix("Expected ")
        raise ValueError(f"expected {wanted}, got {raw!r}") from error
    return value
