"""The section ``metrics`` of the configuration."""

import pytest

from controllerd.config.load import load_config
from controllerd.config.model import MetricsConfig
from controllerd.errors import ConfigError

NEEDED = {
    "zookeeper.connect": "zk:2181",
    "node.id": "2000000001",
    "node.data_dir": "/nowhere",
    "kafka.listeners": ["PLAINTEXT://127.0.0.1:9092"],
}


def configured(**variables: str) -> MetricsConfig:
    """The section with these variables set."""
    env = {f"CONTROLLERD__METRICS__{name.upper()}": value for name, value in variables.items()}
    return load_config(None, env, NEEDED).metrics


def test_two_dialects_are_used_unless_others_are_named() -> None:
    assert configured() == MetricsConfig(dialects=("jmx_exporter", "confluent"), open=False)
    named = configured(dialects="strimzi_reporter, JMX_EXPORTER", open="true")
    assert named == MetricsConfig(dialects=("strimzi_reporter", "jmx_exporter"), open=True)


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as refused:
        configured(dialects="statsd")

    assert "expected one of jmx_exporter, confluent, strimzi_reporter" in str(refused.value)


def test_dialects_are_shown_as_they_are_named() -> None:
    shown = load_config(None, {}, NEEDED).effective()["metrics.dialects"]

    assert shown == {"value": ["jmx_exporter", "confluent"], "origin": "default"}
