"""The topic configs that each Kafka release knows, and the values that it accepts.

A broker reads ``/config/topics`` at every start and judges each value by its own release. A value
that it does not understand ends the start: one topic with ``message.format.version=3.9-IV0`` keeps
every 2.8 broker down, whichever controller leads. So a new topic is judged by the releases of the
live brokers (``topic_creation.py`` has the argument), and here by one of them.

The error messages are those of that release's controller, and the checks come in its order: unknown
names, then each value in the order of the table, then the rules across values. The table is data,
generated from the releases themselves (``topic_config_table.py``).
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from controllerd.core.releases import NEWEST, OLDEST, Release
from controllerd.core.topic_config_table import (
    FORMAT_VERSIONS,
    LATEST_FORMAT_VERSIONS,
    TOPIC_CONFIG_ROWS,
    TopicConfigRow,
)
from controllerd.errors import ControllerdError

Value = int | float | bool | str | tuple[str, ...]
"""A parsed config, by its type in Kafka."""
Check = Callable[[Value], str | None]
"""Returns why a parsed value is not allowed, or None."""


class InvalidTopicConfig(ControllerdError):
    """A config is unknown or invalid, or two contradict each other (error 40), as the message says.

    ``config`` is the name of the config to blame, always one of the given ones.
    """

    def __init__(self, message: str, config: str) -> None:
        super().__init__(message)
        self.config = config


class ConfigType(Enum):
    """Kafka's types of configs, by the names in error messages."""

    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    STRING = "STRING"


class ConfigRule(NamedTuple):
    """The rule of one config: the type of its text, and the allowed values."""

    type: ConfigType
    check: Check | None = None
    each: Check | None = None
    """The check of each element of a list; the error names only the element."""
    default: str | None = None
    """The value of a topic that does not set the config; None if a setting of the broker gives it."""
    is_internal: bool = False
    """Whether brokers show the config only if a topic sets it, and then as the text that was written."""


MAX_LONG: Final = 2**63 - 1
_JAVA_SPACE: Final = "".join(map(chr, range(0x21)))
"""The characters that Java trims: everything up to the space, control characters too."""
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d+")
_BITS: Final = {ConfigType.INT: 31, ConfigType.LONG: 63}
_DECIMAL: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))([fFdD]?)")
_THROTTLED: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")
_RETENTION_DEFAULTS: Final = {"retention.ms": 7 * 24 * 60 * 60 * 1000, "retention.bytes": -1}
_FIRST_WITH_TIERED_STORAGE: Final = Release(3, 6)
_LAST_OF_SCALA: Final = Release(3, 4)
"""The last release whose ``LogConfig`` is in Scala; one message of the later Java class has no full stop."""
_REMOTE_STORAGE: Final = "remote.storage.enable"
_REMOTE_FLAGS: Final = ("remote.log.delete.on.disable", "remote.log.copy.disable")
_FORMAT_VERSIONS: Final = tuple(FORMAT_VERSIONS)
_LAST_STEPS: Final = {version.partition("-IV")[0]: version for version in _FORMAT_VERSIONS}
"""By protocol version without a step (``2.7``), the version with its last step (``2.7-IV2``); the oldest have none."""
_LENIENT: Final = "ApiVersionValidator"
"""The syntax of protocol versions for releases up to 3.2: these ignore dots at the end, too."""


def _between(minimum: int, maximum: int | None) -> Check:
    def check(value: Value) -> str | None:
        if _number(value) < minimum:
            return f"Value must be at least {minimum}"
        too_large = maximum is not None and _number(value) > maximum
        return f"Value must be no more than {maximum}" if too_large else None

    return check


def _one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"String must be one of: {', '.join(allowed)}"


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 or 1 <= _number(value) <= 9 else "Value must be between 1 and 9 or equal to -1"


def _format_version(row: TopicConfigRow, release: Release) -> Check:
    known, lenient = _format_versions(release), row.validator == _LENIENT

    def check(value: Value) -> str | None:
        text = str(value)
        if _without_patch(text, lenient=lenient) in known:
            return None
        return f"Version {f'`{text}`' if lenient else text} is not a valid version"

    return check


@cache
def _format_versions(release: Release) -> frozenset[str]:
    """Return every text that this release accepts as a protocol version, without patch numbers, which it ignores."""
    latest = LATEST_FORMAT_VERSIONS[release]
    names = list(_LAST_STEPS)
    steps = _FORMAT_VERSIONS[: _FORMAT_VERSIONS.index(latest.step) + 1]
    return frozenset((*steps, *names[: names.index(latest.name) + 1]))


def _without_patch(text: str, *, lenient: bool = False) -> str:
    segments = text.rstrip(".").split(".")
    wanted = 3 if text.startswith("0.") else 2
    return text if len(segments) <= wanted and not lenient else ".".join(segments[:wanted])


def exact_version(text: str) -> str:
    """A protocol version with the last step of its release, unless it names one, as brokers show it."""
    version = _without_patch(text)
    return _LAST_STEPS.get(version, version)


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


def topic_configs(release: Release) -> Mapping[str, ConfigRule]:
    """Return every topic config of a release, in the order in which Kafka checks their values.

    A release that is older or newer than the table counts as the nearest release in it.
    """
    return _rules(min(max(release, OLDEST), NEWEST))


@cache
def _rules(release: Release) -> Mapping[str, ConfigRule]:
    return {row.name: _rule(row, release) for row in TOPIC_CONFIG_ROWS if row.since <= release <= row.until}


def _rule(row: TopicConfigRow, release: Release) -> ConfigRule:
    each = _one_of(*row.elements) if row.elements else None
    default = row.default if row.setting is None else None
    return ConfigRule(ConfigType[row.type], _check(row, release), each, default, row.is_internal)


def _check(row: TopicConfigRow, release: Release) -> Check | None:
    if row.validator is not None:
        return _VALIDATORS[row.validator](row, release)
    if row.minimum is not None:
        return _between(row.minimum, row.maximum)
    return _one_of(*row.values) if row.values else None


_VALIDATORS: Final[Mapping[str, Callable[[TopicConfigRow, Release], Check]]] = {
    "ApiVersionValidator": _format_version,
    "MetadataVersionValidator": _format_version,
    "ThrottledReplicaListValidator": lambda row, _release: _throttled(row.name),
    "[1,...,9] or -1": lambda _row, _release: _gzip_level,
}
"""The implementations of the rules that the table only names."""

TOPIC_CONFIGS: Final = topic_configs(NEWEST)
"""Every topic config of 3.9."""


def check_topic_configs(
    configs: Mapping[str, str], release: Release = NEWEST, *, tiered_storage: bool = False
) -> dict[str, Value]:
    """Return the parsed values of the configs of a new topic, as brokers of ``release`` read them.

    A config that is not given counts as Kafka's own default. The exception is the retention: brokers
    from 3.0 to 3.5 compare a local retention with it, so it must be given together with a local one.
    ``tiered_storage`` is whether the brokers have ``remote.log.storage.system.enable`` (KIP-405).

    :raises InvalidTopicConfig: brokers of this release would refuse the configs, or could not load the topic.
    """
    rules = topic_configs(release)
    for name in configs:
        if name not in rules:
            raise InvalidTopicConfig(f"Unknown topic config name: {name}", name)
    values = {name: _parsed(name, configs[name], rules[name]) for name in rules if name in configs}
    _check_compaction_lags(values)
    _check_remote_flags(values)
    if release < _FIRST_WITH_TIERED_STORAGE:
        _check_local_retention_always(values, release)
    elif values.get(_REMOTE_STORAGE, False):
        _check_remote_storage(values, tiered_storage=tiered_storage)
    return values


def parse_config(name: str, text: str, release: Release = NEWEST) -> Value:
    """Return the value of one config from its text, as ``release``, which knows the config, reads it.

    :raises InvalidTopicConfig: wrong type, or out of range.
    """
    return _parsed(name, text, topic_configs(release)[name])


def _parsed(name: str, text: str, rule: ConfigRule) -> Value:
    value = _parse(name, text, rule.type)
    for element in _strings(value) if rule.each else ():
        _require(name, element, rule.each)
    _require(name, value, rule.check)
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
    return InvalidTopicConfig(f"Invalid value {shown} for configuration {name}: {problem}", name)


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
    if math.isnan(value):  # NaN passes each check of a range, because every comparison with it is false
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
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
            "min.compaction.lag.ms",
        )


def _check_remote_flags(values: Mapping[str, Value]) -> None:
    for given in _REMOTE_FLAGS:
        if values.get(given, False):
            flags = " or ".join(f"`{flag}`" for flag in _REMOTE_FLAGS)
            raise InvalidTopicConfig(f"It is invalid to set {flags} under Zookeeper's mode.", given)


def _check_remote_storage(values: Mapping[str, Value], *, tiered_storage: bool) -> None:
    if not tiered_storage:
        raise InvalidTopicConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
            _REMOTE_STORAGE,
        )
    if "compact" in _strings(values.get("cleanup.policy", ())):
        raise InvalidTopicConfig("Remote log storage is unsupported for the compacted topics", _REMOTE_STORAGE)
    for whole, default in reversed(_RETENTION_DEFAULTS.items()):
        _check_local_retention(values, whole, default)


def _check_local_retention(values: Mapping[str, Value], whole: str, default: int) -> None:
    """Check that local retention does not exceed the whole retention; -1 is without limit, -2 the whole retention."""
    total, local = _number(values.get(whole, default)), _number(values.get(f"local.{whole}", -2))
    if total < 0 or local == -2:
        return
    if local == -1:
        raise _invalid(f"local.{whole}", "-1", f"Value must not be -1 as {whole} value is set as {total}.")
    if local > total:
        raise _invalid(f"local.{whole}", str(local), f"Value must not be more than {whole} property value: {total}")


def _check_local_retention_always(values: Mapping[str, Value], release: Release) -> None:
    """Check the rules that brokers from 3.0 to 3.5 apply whenever they load a topic, even without remote storage.

    Unlike later releases, these brokers take a retention of -1 (no limit) for less than any local
    retention (``LogConfig``). If the topic has no retention of its own, each broker compares the local
    one with its own log.retention.ms, .minutes, .hours or .bytes, which can differ from broker to
    broker and change before the next start. No local retention fits all of these settings (not even 0,
    if one of them is without limit), and a broker does not start with one that does not fit. So the
    topic has to name its retention, too.
    """
    for whole in _RETENTION_DEFAULTS:
        local = _number(values.get(f"local.{whole}", -2))
        if local == -2:
            continue
        if whole not in values:
            raise _invalid(f"local.{whole}", str(local), _unknown_retention(whole, release))
        total = _number(values[whole])
        if local == -1 and total != -1:
            stop = "." if release <= _LAST_OF_SCALA else ""
            raise _invalid(f"local.{whole}", "-1", f"Value must not be -1 as {whole} value is set as {total}{stop}")
        if local > total:
            raise _invalid(f"local.{whole}", str(local), f"Value must not be more than property: {whole} value.")


def _unknown_retention(whole: str, release: Release) -> str:
    return (
        f"Where a topic has no {whole}, brokers of Kafka {release} compare this value with their own log.retention "
        f"settings at every start, and end if it does not fit. Name {whole}, too."
    )
