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
