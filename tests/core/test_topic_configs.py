"""Topic configs: what Kafka 3.9 takes, and what it says about the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.topic_configs import TOPIC_CONFIGS, ConfigType, InvalidTopicConfig, check_topic_configs

WEEK_MS = 604_800_000


def problem(configs: dict[str, str], *, tiered_storage: bool = False) -> str | None:
    try:
        check_topic_configs(configs, tiered_storage=tiered_storage)
    except InvalidTopicConfig as refused:
        return str(refused)
    return None


def test_the_table_has_every_config_of_kafka_39() -> None:
    assert len(TOPIC_CONFIGS) == 36


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("segment.bytes", "14", 14),
        ("segment.bytes", " +1048576\t", 1_048_576),
        ("retention.bytes", "-9223372036854775808", -(2**63)),
        ("retention.ms", "-1", -1),
        ("min.cleanable.dirty.ratio", "0.5", 0.5),
        ("min.cleanable.dirty.ratio", "1e-1f", 0.1),
        ("min.cleanable.dirty.ratio", ".5d", 0.5),
        ("preallocate", "TRUE", True),
        ("unclean.leader.election.enable", " false ", False),
        ("cleanup.policy", "compact , delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("compression.type", " zstd ", "zstd"),
        ("compression.gzip.level", "-1", -1),
        ("compression.zstd.level", "-131072", -131_072),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("message.format.version", "3.0-IV1", "3.0-IV1"),
        ("message.format.version", "2.8.1", "2.8.1"),
        ("message.format.version", "0.10.2.1", "0.10.2.1"),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("follower.replication.throttled.replicas", "0:1, 12:3", ("0:1", "12:3")),
        ("leader.replication.throttled.replicas", "", ()),
    ],
)
def test_a_good_value_is_read_as_its_type(name: str, text: str, value: object) -> None:
    assert check_topic_configs({name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("segment.bytes", "13", "Value must be at least 14"),
        ("segment.bytes", "lots", "Not a number of type INT"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("segment.bytes", " 1_000", "Not a number of type INT"),
        ("segment.bytes", "", "Not a number of type INT"),
        ("segment.index.bytes", "3", "Value must be at least 4"),
        ("segment.ms", "0", "Value must be at least 1"),
        ("segment.jitter.ms", "-1", "Value must be at least 0"),
        ("flush.messages", "0", "Value must be at least 1"),
        ("flush.ms", "-1", "Value must be at least 0"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("retention.bytes", "1.5", "Not a number of type LONG"),
        ("max.message.bytes", "-1", "Value must be at least 0"),
        ("index.interval.bytes", "-1", "Value must be at least 0"),
        ("delete.retention.ms", "-1", "Value must be at least 0"),
        ("min.compaction.lag.ms", "-1", "Value must be at least 0"),
        ("max.compaction.lag.ms", "0", "Value must be at least 1"),
        ("file.delete.delay.ms", "-1", "Value must be at least 0"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("message.timestamp.difference.max.ms", "-1", "Value must be at least 0"),
        ("message.timestamp.before.max.ms", "-1", "Value must be at least 0"),
        ("message.timestamp.after.max.ms", "-1", "Value must be at least 0"),
        ("local.retention.ms", "-3", "Value must be at least -2"),
        ("local.retention.bytes", "-3", "Value must be at least -2"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "0", "Value must be at least 1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"),
        ("min.cleanable.dirty.ratio", "Infinity", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "inf", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "half", "Not a number of type DOUBLE"),
        ("preallocate", " yes", "Expected value to be either true or false"),
        ("message.downconversion.enable", "1", "Expected value to be either true or false"),
        ("cleanup.policy", "purge", "String must be one of: compact, delete"),
        ("compression.type", "none", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("message.timestamp.type", "createtime", "String must be one of: CreateTime, LogAppendTime"),
        ("message.format.version", "4.0", "Version 4.0 is not a valid version"),
        ("message.format.version", "3.8-IV1", "Version 3.8-IV1 is not a valid version"),
        ("message.format.version", "3.9.", "Version 3.9. is not a valid version"),
    ],
)
def test_a_bad_value_is_refused_in_kafkas_words(name: str, text: str, reason: str) -> None:
    assert problem({name: text}) == f"Invalid value {text} for configuration {name}: {reason}"


@pytest.mark.parametrize(
    ("text", "shown"), [("2", "2.0"), ("12345678", "1.2345678E7"), ("1e10", "1.0E10"), ("-1e-5", "-1.0E-5")]
)
def test_a_number_beyond_its_range_is_shown_as_java_shows_it(text: str, shown: str) -> None:
    assert (problem({"min.cleanable.dirty.ratio": text}) or "").startswith(f"Invalid value {shown} for")


def test_of_a_list_of_policies_the_bad_one_is_named() -> None:
    assert problem({"cleanup.policy": "compact,,delete"}) == (
        "Invalid value  for configuration cleanup.policy: String must be one of: compact, delete"
    )


@pytest.mark.parametrize("name", ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"])
def test_throttled_replicas_are_pairs_or_a_star(name: str) -> None:
    assert problem({name: "0:1,*"}) == (
        f"Invalid value [0:1, *] for configuration {name}: {name} must be the literal '*' or a list of replicas in "
        "the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def test_an_unknown_name_is_refused_before_any_value_is_read() -> None:
    assert problem({"segment.bytes": "x", "no.such": "1"}) == "Unknown topic config name: no.such"


def test_of_two_bad_values_the_first_in_kafkas_table_is_named() -> None:
    assert "segment.bytes" in (problem({"preallocate": "x", "segment.bytes": "x"}) or "")


def test_a_topic_cannot_wait_longer_at_least_than_at_most() -> None:
    assert problem({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}) == (
        "conflict topic config setting min.compaction.lag.ms (6) > max.compaction.lag.ms (5)"
    )


def test_a_lag_without_its_counterpart_is_fine() -> None:
    assert problem({"min.compaction.lag.ms": str(2**63 - 1)}) is None


@pytest.mark.parametrize("flag", ["remote.log.copy.disable", "remote.log.delete.on.disable"])
def test_flags_of_kraft_are_refused_unless_they_are_off(flag: str) -> None:
    assert problem({flag: "false"}) is None
    assert problem({flag: "true"}) == (
        "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
    )


def test_remote_storage_wants_brokers_that_have_it() -> None:
    configs = {"remote.storage.enable": "true"}

    assert problem(configs, tiered_storage=True) is None
    assert problem(configs) == (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"cleanup.policy": "compact,delete"}, "Remote log storage is unsupported for the compacted topics"),
        (
            {"local.retention.ms": "-1"},
            (
                "Invalid value -1 for configuration local.retention.ms: "
                f"Value must not be -1 as retention.ms value is set as {WEEK_MS}."
            ),
        ),
        (
            {"retention.bytes": "10", "local.retention.bytes": "11"},
            (
                "Invalid value 11 for configuration local.retention.bytes: "
                "Value must not be more than retention.bytes property value: 10"
            ),
        ),
        ({"local.retention.bytes": "11"}, None),
        ({"retention.bytes": "10", "local.retention.bytes": "-2"}, None),
    ],
)
def test_a_topic_with_remote_storage_keeps_less_on_the_brokers_than_in_all(
    configs: dict[str, str], text: str | None
) -> None:
    assert problem({"remote.storage.enable": "true", **configs}, tiered_storage=True) == text


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text())
def test_any_text_is_either_a_value_of_the_right_type_or_refused(name: str, text: str) -> None:
    types = {
        ConfigType.INT: int, ConfigType.LONG: int, ConfigType.DOUBLE: float,
        ConfigType.BOOLEAN: bool, ConfigType.LIST: tuple, ConfigType.STRING: str,
    }  # fmt: skip
    try:
        values = check_topic_configs({name: text})
    except InvalidTopicConfig:
        return

    assert type(values[name]) is types[TOPIC_CONFIGS[name].type]


@given(st.sampled_from([name for name, config in TOPIC_CONFIGS.items() if config.type is ConfigType.LONG]))
def test_the_largest_long_is_a_value_of_every_long(name: str) -> None:
    assert check_topic_configs({name: str(2**63 - 1)}) == {name: 2**63 - 1}
