"""All configs of a new topic, from what it sets and what brokers are set to, as the peer's answers have them."""

import pytest

from controllerd.core.releases import Release
from controllerd.core.topic_config_table import TOPIC_CONFIG_ROWS
from controllerd.core.topic_configs import TOPIC_CONFIGS, topic_configs
from controllerd.core.topic_defaults import (
    BROKER_SETTINGS,
    BrokerSetting,
    ConfigSource,
    EffectiveConfig,
    effective_configs,
    given_configs,
)

DEFAULT, STATIC = ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG
MAX_LONG = str(2**63 - 1)


def broker(**settings: str | None) -> dict[str, BrokerSetting]:
    """Settings of a broker from its file, their dots as underscores."""
    return {name.replace("_", "."): BrokerSetting(value, STATIC) for name, value in settings.items()}


def effective(name: str, settings: dict[str, BrokerSetting], **given: str) -> EffectiveConfig | None:
    """Return the effective value of one config of a topic."""
    topic = {key.replace("_", "."): value for key, value in given.items()}
    return next((config for config in effective_configs(topic, settings) if config.name == name), None)


def test_every_config_is_returned_once_for_a_broker_that_knows_all() -> None:
    known = {name: BrokerSetting("1", DEFAULT) for name in BROKER_SETTINGS}
    assert [config.name for config in effective_configs({}, known)] == list(TOPIC_CONFIGS)


def test_the_configs_of_the_topic_come_first() -> None:
    set_by_topic = EffectiveConfig("segment.bytes", "99", ConfigSource.TOPIC_CONFIG)
    assert effective("segment.bytes", broker(log_segment_bytes="7"), segment_bytes=" 99 ") == set_by_topic


@pytest.mark.parametrize(
    ("text", "shown"), [("TRUE", "true"), (" 0.50 ", "0.5"), ("compact , delete", "compact,delete"), ("+7", "7")]
)
def test_values_are_shown_as_brokers_show_them(text: str, shown: str) -> None:
    name = {"TRUE": "preallocate", " 0.50 ": "min.cleanable.dirty.ratio", "+7": "flush.ms"}.get(text, "cleanup.policy")
    assert given_configs({name: text}) == [EffectiveConfig(name, shown, ConfigSource.TOPIC_CONFIG)]


@pytest.mark.parametrize("text", ["NaN", "-NaN", " +NaN"])
def test_nan_is_within_every_range_and_shown_without_its_sign(text: str) -> None:
    shown = EffectiveConfig("min.cleanable.dirty.ratio", "NaN", ConfigSource.TOPIC_CONFIG)
    assert given_configs({"min.cleanable.dirty.ratio": text}) == [shown]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("segment.bytes", "log.segment.bytes"),
        ("max.message.bytes", "message.max.bytes"),
        ("min.insync.replicas", "min.insync.replicas"),
        ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
        ("segment.index.bytes", "log.index.size.max.bytes"),
        ("local.retention.ms", "log.local.retention.ms"),
    ],
)
def test_the_brokers_setting_may_have_another_name(name: str, setting: str) -> None:
    assert effective(name, {setting: BrokerSetting("5", STATIC)}) == EffectiveConfig(name, "5", STATIC)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (broker(log_retention_ms="5", log_retention_minutes="1", log_retention_hours="1"), "5"),
        (broker(log_retention_ms=None, log_retention_minutes="2", log_retention_hours="1"), "120000"),
        (broker(log_retention_ms=None, log_retention_minutes=None, log_retention_hours="168"), "604800000"),
        (broker(log_retention_ms=None, log_retention_minutes=None, log_retention_hours="-1"), "-1"),
    ],
    ids=["milliseconds", "minutes", "hours", "without end"],
)
def test_the_first_setting_that_is_made_counts_in_milliseconds(
    settings: dict[str, BrokerSetting], expected: str
) -> None:
    assert effective("retention.ms", settings) == EffectiveConfig("retention.ms", expected, STATIC)


def test_the_source_is_that_of_the_first_setting_even_where_another_one_counts() -> None:
    settings = {"log.roll.ms": BrokerSetting(None, DEFAULT), "log.roll.hours": BrokerSetting("2", STATIC)}
    assert effective("segment.ms", settings) == EffectiveConfig("segment.ms", "7200000", DEFAULT)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("own", "expected"), [(MAX_LONG, "7"), ("9", "9")], ids=["not set", "set"])
def test_a_timestamp_may_differ_as_the_older_setting_says_unless_there_is_a_newer_one(
    side: str, own: str, expected: str
) -> None:
    name = f"message.timestamp.{side}.max.ms"
    settings = broker(log_message_timestamp_difference_max_ms="7") | {f"log.{name}": BrokerSetting(own, STATIC)}
    assert effective(name, settings) == EffectiveConfig(name, expected, STATIC)


@pytest.mark.parametrize(("protocol", "expected"), [("3.9-IV0", "3.0-IV1"), ("2.8-IV1", "2.1-IV2"), (None, "2.1-IV2")])
def test_newer_brokers_write_one_format_whatever_they_are_set_to(protocol: str | None, expected: str) -> None:
    settings = broker(log_message_format_version="2.1", inter_broker_protocol_version=protocol)
    assert effective("message.format.version", settings) == EffectiveConfig("message.format.version", expected, STATIC)


def test_a_config_without_a_broker_setting_has_kafkas_default() -> None:
    for name, value in (("remote.storage.enable", "false"), ("leader.replication.throttled.replicas", "")):
        assert effective(name, {}) == EffectiveConfig(name, value, DEFAULT)


def test_a_config_that_an_older_broker_does_not_know_is_left_out() -> None:
    assert effective("compression.zstd.level", broker(log_segment_bytes="7")) is None


def test_a_number_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="soon"):
        effective_configs({}, broker(log_retention_ms="soon"))


@pytest.mark.parametrize("release", [Release(2, 8), Release(3, 4), Release(3, 7)], ids=str)
def test_a_topic_of_older_brokers_has_no_configs_that_they_do_not_know(release: Release) -> None:
    known = {name: BrokerSetting("1", DEFAULT) for name in BROKER_SETTINGS}
    shown = [name for name, rule in topic_configs(release).items() if not rule.is_internal]
    assert [config.name for config in effective_configs({}, known, release)] == shown


@pytest.mark.parametrize("release", [Release(3, 0), Release(3, 5)], ids=str)
def test_an_internal_config_is_shown_only_where_a_topic_sets_it_and_then_as_it_was_written(release: Release) -> None:
    unset = effective_configs({}, {}, release)
    configs = effective_configs({"local.retention.ms": " +5"}, {}, release)
    assert "local.retention.ms" not in {config.name for config in unset}
    assert EffectiveConfig("local.retention.ms", " +5", ConfigSource.TOPIC_CONFIG) in configs
    assert given_configs({"local.retention.ms": " +5"}, release) == [configs[-1]]


def test_a_value_that_only_older_brokers_accept_is_shown_as_they_read_it() -> None:
    shown = EffectiveConfig("flush.messages", "0", ConfigSource.TOPIC_CONFIG)
    assert given_configs({"flush.messages": " 0"}, Release(2, 8)) == [shown]
    assert effective_configs({"flush.messages": "0"}, {}, Release(2, 8))[0] == shown


SETTINGS = sorted({(row.name, row.setting) for row in TOPIC_CONFIG_ROWS if row.setting is not None})


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_a_config_that_a_topic_does_not_set_is_that_of_the_setting_that_releases_name(name: str, setting: str) -> None:
    assert effective(name, {setting: BrokerSetting("5", STATIC)}) == EffectiveConfig(name, "5", STATIC)
