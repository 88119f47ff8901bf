"""The default of a topic config: the brokers' setting of another name, or Kafka's own.

New topics are answered with all of their configs (KIP-525). Kafka's controller takes the rest from its own settings as
a broker; a controller that is no broker computes the same values from the settings of a broker.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from controllerd.core.releases import NEWEST, Release
from controllerd.core.topic_configs import (
    MAX_LONG,
    TOPIC_CONFIGS,
    exact_version,
    parse_config,
    shown_config,
    topic_configs,
)


class ConfigSource(IntEnum):
    """Where the value of a config comes from, by Kafka's codes."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class BrokerSetting(NamedTuple):
    """The value of one setting of a broker; None: it is not set, and has no default."""

    value: str | None
    source: ConfigSource
    hidden: str | None = None
    """The value that the dynamic default of all brokers overrides, where it was asked for."""


class EffectiveConfig(NamedTuple):
    """One config of a topic as brokers act on it."""

    name: str
    value: str
    source: ConfigSource


class _Synonym(NamedTuple):
    """A setting of brokers, and how many of the topic config's units are in one of its own."""

    name: str
    factor: int = 1


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_RETENTION: Final = "retention.ms"
_FORMAT: Final = "message.format.version"
_LATEST_FORMAT: Final = "3.0-IV1"
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_EITHER_DIFFERENCE: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_PROTOCOL: Final = "inter.broker.protocol.version"
_FIRST_WITHOUT_FORMATS: Final = 3
"""The first major version of the protocol under which brokers write one format only (KIP-724)."""

_SYNONYMS: Final[Mapping[str, tuple[_Synonym, ...]]] = {
    "segment.ms": (_Synonym("log.roll.ms"), _Synonym("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (_Synonym("log.roll.jitter.ms"), _Synonym("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (_Synonym("log.index.size.max.bytes"),),
    "flush.messages": (_Synonym("log.flush.interval.messages"),),
    "flush.ms": (_Synonym("log.flush.interval.ms"), _Synonym("log.flush.scheduler.interval.ms")),
    _RETENTION: (
        _Synonym("log.retention.ms"),
        _Synonym("log.retention.minutes", _MINUTE_MS),
        _Synonym("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (_Synonym("message.max.bytes"),),
    "delete.retention.ms": (_Synonym("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (_Synonym("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (_Synonym("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (_Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (_Synonym("log.cleaner.min.cleanable.ratio"),),
    **{
        name: (_Synonym(name),)
        for name in (
            "unclean.leader.election.enable",
            "min.insync.replicas",
            "compression.type",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
        )
    },
}
"""The broker settings of a topic config whose name is not ``log.`` and the name. The first one that is set counts."""


def _synonyms(name: str) -> tuple[_Synonym, ...]:
    return _SYNONYMS.get(name) or (_Synonym(f"log.{name}"),)


BROKER_SETTINGS: Final = (
    *(each.name for name, rule in TOPIC_CONFIGS.items() if rule.default is None for each in _synonyms(name)),
    _PROTOCOL,
)
"""Every setting of a broker that is needed for the effective configs of topics."""


def effective_configs(
    given: Mapping[str, str], broker: Mapping[str, BrokerSetting], release: Release = NEWEST
) -> list[EffectiveConfig]:
    """Return every config of a topic that sets ``given`` (already valid) on brokers with these settings.

    ``release`` is the one that the topic was judged by. The result leaves out configs that this
    release does not know, and, unless the topic sets them, configs that the broker does not know.
    """
    known = (_effective(name, given, broker, release) for name in topic_configs(release))
    return [config for config in known if config is not None]


def given_configs(given: Mapping[str, str], release: Release = NEWEST) -> list[EffectiveConfig]:
    """Return the configs that the topic itself sets, where no broker has given the others."""
    return [_given(name, text, release) for name, text in given.items()]


def _given(name: str, text: str, release: Release) -> EffectiveConfig:
    is_internal = topic_configs(release)[name].is_internal
    shown = text if is_internal else shown_config(parse_config(name, text, release))
    return EffectiveConfig(name, shown, ConfigSource.TOPIC_CONFIG)


def _effective(
    name: str, given: Mapping[str, str], broker: Mapping[str, BrokerSetting], release: Release
) -> EffectiveConfig | None:
    if name in given:
        return _given(name, given[name], release)
    rule = topic_configs(release)[name]
    if rule.is_internal:
        return None
    if rule.default is not None:
        return EffectiveConfig(name, rule.default, ConfigSource.DEFAULT_CONFIG)
    synonyms = _synonyms(name)
    value = _special(name, _first_set(synonyms, broker), broker)
    if value is None:
        return None
    # Kafka gives the source of the first synonym, even if the value comes from another synonym.
    first = broker.get(synonyms[0].name)
    return EffectiveConfig(name, value, first.source if first is not None else ConfigSource.DEFAULT_CONFIG)


def _first_set(synonyms: Iterable[_Synonym], broker: Mapping[str, BrokerSetting]) -> str | None:
    for synonym in synonyms:
        setting = broker.get(synonym.name)
        if setting is not None and setting.value is not None:
            return setting.value if synonym.factor == 1 else str(int(setting.value) * synonym.factor)
    return None


def _special(name: str, value: str | None, broker: Mapping[str, BrokerSetting]) -> str | None:
    """The few values that brokers make from more than one setting."""
    if name == _RETENTION and value is not None:
        return str(max(-1, int(value)))
    if name in _EITHER_DIFFERENCE and value == str(MAX_LONG):
        return _first_set(_synonyms(_DIFFERENCE), broker) or value
    if name == _FORMAT and value is not None:
        protocol = broker.get(_PROTOCOL)
        major = (protocol.value or "").partition(".")[0] if protocol is not None else ""
        return _LATEST_FORMAT if major.isdecimal() and int(major) >= _FIRST_WITHOUT_FORMATS else exact_version(value)
    return value
