"""Thirty disagreements between three brokers: each setting that a controller takes from them, one broker differing."""

from typing import Final, NamedTuple

from controllerd.core.cluster_settings import (
    AUTO_REBALANCE,
    DELETE_TOPICS,
    IMBALANCE_INTERVAL,
    IMBALANCE_PERCENTAGE,
    MIN_ISR,
    PARTITIONS,
    PROTOCOL_VERSION,
    QUOTA_SAMPLES,
    QUOTA_SECONDS,
    REPLICATION_FACTOR,
    REQUEST_TIMEOUT,
    SOCKET_TIMEOUT,
    TIERED_STORAGE,
    TOKEN_CHECK,
    UNCLEAN,
)
from controllerd.core.resolved_settings import Source

COMMON: Final = {
    PROTOCOL_VERSION: "3.7-IV4",
    AUTO_REBALANCE: "true",
    QUOTA_SAMPLES: "21",
    QUOTA_SECONDS: "2",
    SOCKET_TIMEOUT: "20000",
    REPLICATION_FACTOR: "3",
    TOKEN_CHECK: "60000",
    DELETE_TOPICS: "true",
    IMBALANCE_INTERVAL: "120",
    IMBALANCE_PERCENTAGE: "5",
    MIN_ISR: "2",
    PARTITIONS: "6",
    TIERED_STORAGE: "true",
    REQUEST_TIMEOUT: "15000",
    UNCLEAN: "true",
}
"""The settings of brokers that agree."""


class Disagreement(NamedTuple):
    """Brokers 1 and 2 agree on a setting, and broker 3 has another value."""

    name: str
    agreed: str
    other: str
    used: str
    """The value that the controller must use."""
    source: Source
    why: str
    """Why it uses that value, in the words of the alarm."""

    @property
    def problem(self) -> str:
        """The text of the alarm: the setting, the value in use, and each broker with another one."""
        says = {1: self.agreed, 2: self.agreed, 3: self.other}
        differing = ", ".join(f"broker {broker} says {value}" for broker, value in says.items() if value != self.used)
        return f"{self.name}: {self.used} is used as {self.why}, but {differing}"


def _lowest(name: str, other: str, used: str) -> Disagreement:
    return Disagreement(name, COMMON[name], other, used, Source.SAFER, "the lowest of all")


def _safer(name: str, other: str, used: str, agreed: str | None = None) -> Disagreement:
    return Disagreement(name, agreed or COMMON[name], other, used, Source.SAFER, "the safer value")


def _majority(name: str, other: str) -> Disagreement:
    return Disagreement(name, COMMON[name], other, COMMON[name], Source.MAJORITY, "what most brokers say")


DISAGREEMENTS: Final = (
    _lowest(PROTOCOL_VERSION, "3.9-IV0", "3.7-IV4"),
    _lowest(PROTOCOL_VERSION, "2.8-IV1", "2.8-IV1"),
    _safer(AUTO_REBALANCE, "false", "false"),
    _safer(AUTO_REBALANCE, "true", "false", agreed="false"),
    _safer(DELETE_TOPICS, "false", "false"),
    _safer(DELETE_TOPICS, "true", "false", agreed="false"),
    _safer(TIERED_STORAGE, "false", "false"),
    _safer(TIERED_STORAGE, "true", "false", agreed="false"),
    _safer(UNCLEAN, "false", "false"),
    _safer(UNCLEAN, "true", "false", agreed="false"),
    _safer(IMBALANCE_INTERVAL, "600", "600"),
    _safer(IMBALANCE_INTERVAL, "60", "120"),
    _safer(IMBALANCE_PERCENTAGE, "50", "50"),
    _safer(IMBALANCE_PERCENTAGE, "1", "5"),
    _safer(MIN_ISR, "3", "3"),
    _safer(MIN_ISR, "1", "2"),
    _majority(QUOTA_SAMPLES, "11"),
    _majority(QUOTA_SAMPLES, "99"),
    _majority(QUOTA_SECONDS, "1"),
    _majority(QUOTA_SECONDS, "9"),
    _majority(SOCKET_TIMEOUT, "10000"),
    _majority(SOCKET_TIMEOUT, "30000"),
    _majority(REPLICATION_FACTOR, "1"),
    _majority(REPLICATION_FACTOR, "5"),
    _majority(TOKEN_CHECK, "30000"),
    _majority(TOKEN_CHECK, "3600000"),
    _majority(PARTITIONS, "1"),
    _majority(PARTITIONS, "12"),
    _majority(REQUEST_TIMEOUT, "10000"),
    _majority(REQUEST_TIMEOUT, "30000"),
)
"""Each setting twice: the broker that differs has the lower value once and the higher one once."""


def title(case: Disagreement) -> str:
    """The name of a parametrized test."""
    return f"{case.name}, {case.other} beside {case.agreed}"
