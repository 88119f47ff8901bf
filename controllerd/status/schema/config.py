"""``GET /v1/config`` and ``GET /v1/settings``: the configuration of an instance, and the settings of the cluster."""

from typing import Any

import msgspec

from controllerd.status.schema.common import Answer


class ConfigItem(msgspec.Struct, frozen=True, kw_only=True):
    """One key. ``origin``: a file, a variable, ``flag`` or ``default``; secrets are shown as ``<hidden>``."""

    key: str
    value: Any
    origin: str


class ConfigList(Answer, frozen=True, kw_only=True):
    """``GET /v1/config``, by key."""

    kind: str = "ConfigList"
    items: list[ConfigItem]


class BrokerValue(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a setting on one broker."""

    broker: int
    value: str


class SettingItem(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the cluster, by Kafka's name, with the value that this instance uses."""

    setting: str
    value: str
    source: str
    """``configured``, ``brokers``, ``majority``, ``safer``, ``waiting``, ``cache``,
    ``dynamic``, ``zookeeper`` or ``default``."""
    origin: str | None = None
    """The file, variable or flag that configures it for this instance; null if none does."""
    brokers: list[BrokerValue]
    """The value of each live broker, as far as it is known."""
    differing: list[BrokerValue]
    """The brokers with a value other than the one in use."""
    problem: str | None = None
    """The problem that an operator has to know about; null if there is none."""


class SettingList(Answer, frozen=True, kw_only=True):
    """``GET /v1/settings``, by name; empty where this instance does not read the settings of brokers."""

    kind: str = "SettingList"
    items: list[SettingItem]
    refusal: str | None = None
    """The settings of brokers that keep this instance from leading; null if there are none."""
