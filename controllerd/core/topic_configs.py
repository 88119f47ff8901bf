"""Which topic configs Kafka 3.9 knows and what they may be set to, so that a bad one is refused before it is stored.

A broker that finds a bad value in ``/config/topics`` cannot load the topic. The sentences are those of Kafka's own
controller, and so is the order: unknown names, each value in the order of the table, the rules across values.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple

from controllerd.errors import ControllerdError

Value = int | float | bool | str | tuple[str, ...]
"""A parsed config: what Kafka's type of it holds."""
Check = Callable[[Value], str | None]
"""Why a parsed value is not allowed, or None."""


class InvalidTopicConfig(ControllerdError):
    """A config is unknown, its value is bad, or two values contradict each other (error 40); the message says which."""


class ConfigType(Enum):
    """Kafka's types of configs; the name is what an error calls them."""

    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    STRING = "STRING"


class ConfigRule(NamedTuple):
    """One config: how its text is read, and what the value may be."""

    type: ConfigType
    check: Check | None = None
    each: Check | None = None
    """For each element of a list; the error names the element only."""


MAX_LONG: Final = 2**63 - 1
_JAVA_SPACE: Final = "".join(map(chr, range(0x21)))
"""What Java trims: everything up to the space, control characters too."""
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d+")
_BITS: Final = {ConfigType.INT: 31, ConfigType.LONG: 63}
_DECIMAL: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))([fFdD]?)")
_THROTTLED: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")
_REMOTE_FLAGS: Final = ("remote.log.delete.on.disable", "remote.log.copy.disable")
_LAST_STEPS: Final = {
    "0.10.0": 1, "0.10.1": 2, "0.10.2": 0, "0.11.0": 2, "1.0": 0, "1.1": 0, "2.0": 1, "2.1": 2, "2.2": 1, "2.3": 1,
    "2.4": 1, "2.5": 0, "2.6": 0, "2.7": 2, "2.8": 1, "3.0": 1, "3.1": 0, "3.2": 0, "3.3": 3, "3.4": 0, "3.5": 2,
    "3.6": 2, "3.7": 4, "3.8": 0, "3.9": 0,
}  # fmt: skip
"""Release -> its last step (``-IV``)."""
_STEPS: Final = (f"{release}-IV{step}" for release, last in _LAST_STEPS.items() for step in range(last + 1))
_VERSIONS: Final = frozenset({"0.8.0", "0.8.1", "0.8.2", "0.9.0", *_LAST_STEPS, *_STEPS, "4.0-IV0", "4.0-IV1"})
"""What 3.9 takes as a protocol version; of 4.0 it knows the steps only."""


def _at_least(minimum: int) -> Check:
    return lambda value: f"Value must be at least {minimum}" if _number(value) < minimum else None


def _between(minimum: int, maximum: int) -> Check:
    def check(value: Value) -> str | None:
        if _number(value) < minimum:
            return f"Value must be at least {minimum}"
        return f"Value must be no more than {maximum}" if _number(value) > maximum else None

    return check


def _one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"String must be one of: {', '.join(allowed)}"


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 or 1 <= _number(value) <= 9 else "Value must be between 1 and 9 or equal to -1"


def _version(value: Value) -> str | None:
    text = str(value)
    return None if _without_patch(text) in _VERSIONS else f"Version {text} is not a valid version"


def _without_patch(text: str) -> str:
    segments = text.rstrip(".").split(".")
    wanted = 3 if text.startswith("0.") else 2
    return text if len(segments) <= wanted else ".".join(segments[:wanted])


def exact_version(text: str) -> str:
    """A protocol version with the last step of its release, unless it names one, as brokers show it."""
    version = _without_patch(text)
    return f"{version}-IV{_LAST_STEPS[version]}" if version in _LAST_STEPS else version


def _throttled(name: str) -> Check:
    problem = (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )

    def check(value: Value) -> str | None:
        elements = [element.strip(_JAVA_SPACE) for element in _strings(value)]
        good = "".join(elements) == "*" or all(_THROTTLED.fullmatch(element) for element in elements)
        return None if good else problem

    return check


def _number(value: Value) -> int | float:
    assert isinstance(value, int | float)
    return value


def _strings(value: Value) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


_LEADER_THROTTLE: Final = "leader.replication.throttled.replicas"
_FOLLOWER_THROTTLE: Final = "follower.replication.throttled.replicas"

TOPIC_CONFIGS: Final[Mapping[str, ConfigRule]] = {
    "segment.bytes": ConfigRule(ConfigType.INT, _at_least(14)),
    "segment.ms": ConfigRule(ConfigType.LONG, _at_least(1)),
    "segment.jitter.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "segment.index.bytes": ConfigRule(ConfigType.INT, _at_least(4)),
    "flush.messages": ConfigRule(ConfigType.LONG, _at_least(1)),
    "flush.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "retention.bytes": ConfigRule(ConfigType.LONG),
    "retention.ms": ConfigRule(ConfigType.LONG, _at_least(-1)),
    "max.message.bytes": ConfigRule(ConfigType.INT, _at_least(0)),
    "index.interval.bytes": ConfigRule(ConfigType.INT, _at_least(0)),
    "delete.retention.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "min.compaction.lag.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "max.compaction.lag.ms": ConfigRule(ConfigType.LONG, _at_least(1)),
    "file.delete.delay.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "min.cleanable.dirty.ratio": ConfigRule(ConfigType.DOUBLE, _between(0, 1)),
    "cleanup.policy": ConfigRule(ConfigType.LIST, each=_one_of("compact", "delete")),
    "unclean.leader.election.enable": ConfigRule(ConfigType.BOOLEAN),
    "min.insync.replicas": ConfigRule(ConfigType.INT, _at_least(1)),
    "compression.type": ConfigRule(
        ConfigType.STRING, _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    ),
    "compression.gzip.level": ConfigRule(ConfigType.INT, _gzip_level),
    "compression.lz4.level": ConfigRule(ConfigType.INT, _between(1, 17)),
    "compression.zstd.level": ConfigRule(ConfigType.INT, _between(-131072, 22)),
    "preallocate": ConfigRule(ConfigType.BOOLEAN),
    "message.format.version": ConfigRule(ConfigType.STRING, _version),
    "message.timestamp.type": ConfigRule(ConfigType.STRING, _one_of("CreateTime", "LogAppendTime")),
    "message.timestamp.difference.max.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "message.timestamp.before.max.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    "message.timestamp.after.max.ms": ConfigRule(ConfigType.LONG, _at_least(0)),
    _LEADER_THROTTLE: ConfigRule(ConfigType.LIST, _throttled(_LEADER_THROTTLE)),
    _FOLLOWER_THROTTLE: ConfigRule(ConfigType.LIST, _throttled(_FOLLOWER_THROTTLE)),
    "message.downconversion.enable": ConfigRule(ConfigType.BOOLEAN),
    "remote.storage.enable": ConfigRule(ConfigType.BOOLEAN),
    "local.retention.ms": ConfigRule(ConfigType.LONG, _at_least(-2)),
    "local.retention.bytes": ConfigRule(ConfigType.LONG, _at_least(-2)),
    "remote.log.copy.disable": ConfigRule(ConfigType.BOOLEAN),
    "remote.log.delete.on.disable": ConfigRule(ConfigType.BOOLEAN),
}
"""Every topic config of 3.9, in the order in which Kafka checks their values."""


def check_topic_configs(configs: Mapping[str, str], *, tiered_storage: bool = False) -> dict[str, Value]:
    """The parsed values of the configs of a new topic; what is not given counts as Kafka's own default.

    ``tiered_storage`` says whether the brokers have ``remote.log.storage.system.enable`` (KIP-405).

    :raises InvalidTopicConfig: Kafka would refuse them.
    """
    for name in configs:
        if name not in TOPIC_CONFIGS:
            raise InvalidTopicConfig(f"Unknown topic config name: {name}")
    values = {name: parse_config(name, configs[name]) for name in TOPIC_CONFIGS if name in configs}
    _check_compaction_lags(values)
    if any(values.get(flag, False) for flag in _REMOTE_FLAGS):
        flags = " or ".join(f"`{flag}`" for flag in _REMOTE_FLAGS)
        raise InvalidTopicConfig(f"It is invalid to set {flags} under Zookeeper's mode.")
    if values.get("remote.storage.enable", False):
        _check_remote_storage(values, tiered_storage=tiered_storage)
    return values


def parse_config(name: str, text: str) -> Value:
    """The value of one known config from its text. :raises InvalidTopicConfig: wrong type, or beyond its range."""
    config = TOPIC_CONFIGS[name]
    value = _parse(name, text, config.type)
    for element in _strings(value) if config.each else ():
        _require(name, element, config.each)
    _require(name, value, config.check)
    return value


def _require(name: str, value: Value, check: Check | None) -> None:
    problem = check(value) if check else None
    if problem is not None:
        raise _invalid(name, _shown(value), problem)


def _parse(name: str, text: str, kind: ConfigType) -> Value:
    trimmed = text.strip(_JAVA_SPACE)
    if kind is ConfigType.STRING:
        return trimmed
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(trimmed)) if trimmed else ()
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() not in {"true", "false"}:
            raise _invalid(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    number = _decimal(trimmed) if kind is ConfigType.DOUBLE else _whole(trimmed, _BITS[kind])
    if number is None:
        raise _invalid(name, text, f"Not a number of type {kind.name}")
    return number


def _whole(text: str, bits: int) -> int | None:
    if not _WHOLE.fullmatch(text) or len(text.lstrip("+-0")) > 20:
        return None
    number = int(text)
    return number if -(2**bits) <= number < 2**bits else None


def _decimal(text: str) -> float | None:
    match = _DECIMAL.fullmatch(text)
    return float(match[1]) if match and not (match[2] and match[1].endswith(("NaN", "Infinity"))) else None


def _invalid(name: str, shown: str, problem: str) -> InvalidTopicConfig:
    return InvalidTopicConfig(f"Invalid value {shown} for configuration {name}: {problem}")


def _shown(value: Value) -> str:
    """The value as Java prints it."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return _shown_float(value) if isinstance(value, float) else str(value)


def shown_config(value: Value) -> str:
    """A parsed config as brokers show it: without spaces, and numbers as Java prints them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else _shown(value)


def _shown_float(value: float) -> str:
    if math.isnan(value):  # no range leaves it out
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{len(digits) - 1 + exponent}"


def _check_compaction_lags(values: Mapping[str, Value]) -> None:
    least = _number(values.get("min.compaction.lag.ms", 0))
    most = _number(values.get("max.compaction.lag.ms", MAX_LONG))
    if least > most:
        raise InvalidTopicConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def _check_remote_storage(values: Mapping[str, Value], *, tiered_storage: bool) -> None:
    if not tiered_storage:
        raise InvalidTopicConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if "compact" in _strings(values.get("cleanup.policy", ())):
        raise InvalidTopicConfig("Remote log storage is unsupported for the compacted topics")
    _check_local_retention(values, "retention.bytes", -1)
    _check_local_retention(values, "retention.ms", 7 * 24 * 60 * 60 * 1000)


def _check_local_retention(values: Mapping[str, Value], whole: str, default: int) -> None:
    """What is kept on the brokers may not exceed what is kept in all; -1 is without limit, -2 the same as the whole."""
    total, local = _number(values.get(whole, default)), _number(values.get(f"local.{whole}", -2))
    if total < 0 or local == -2:
        return
    if local == -1:
        raise _invalid(f"local.{whole}", "-1", f"Value must not be -1 as {whole} value is set as {total}.")
    if local > total:
        raise _invalid(f"local.{whole}", str(local), f"Value must not be more than {whole} property value: {total}")
