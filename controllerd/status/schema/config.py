"""``GET /v1/config``: what an instance is configured for."""

from typing import Any

import msgspec

from controllerd.status.schema.common import Meta


class ConfigItem(msgspec.Struct, frozen=True, kw_only=True):
    """One key. ``origin``: a file, a variable, ``flag`` or ``default``; secrets are shown as ``<hidden>``."""

    key: str
    value: Any
    origin: str


class ConfigList(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``GET /v1/config``, by key."""

    api_version: str = "v1"
    kind: str = "ConfigList"
    meta: Meta
    items: list[ConfigItem]


class BrokerValue(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker says of a setting."""

    broker: int
    value: str


class SettingItem(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the cluster, by Kafka's name, with the value that this instance uses."""

    setting: str
    value: str
    source: str
    """``configured``, ``brokers``, ``majority``, ``safer``, ``cache``, ``zookeeper`` or ``default``."""
    origin: str | None = None
    """The file, variable or flag that configures it here; null: none does."""
    brokers: list[BrokerValue]
    """What each live broker says, as far as it is known."""
    differing: list[BrokerValue]
    """Those of them that say something else than what is used."""
    problem: str | None = None
    """What an operator must know about it; null: nothing."""


class SettingList(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``GET /v1/settings``, by name; empty where no broker is asked."""

    api_version: str = "v1"
    kind: str = "SettingList"
    meta: Meta
    items: list[SettingItem]
    refusal: str | None = None
    """What brokers said that keeps this instance from leading; null: nothing."""
