"""``/v1/config`` and ``/v1/settings``: the configuration of this instance and of the cluster, with its sources."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from aiohttp import web

from controllerd.core.cluster_settings import UNCLEAN
from controllerd.core.model import BrokerId
from controllerd.core.resolved_settings import Resolution, Resolved, Source
from controllerd.status.http.routing import route
from controllerd.status.reads.context import Reads
from controllerd.status.schema.config import BrokerValue, ConfigItem, ConfigList, SettingItem, SettingList

_SECRET: Final = re.compile(r"password|secret|token|credential|passphrase|jaas")
_PLAIN: Final = re.compile(r"(_file|_dir|_path|_names?)$")
"""The location of a secret is not hidden."""
_MASK: Final = "<hidden>"


class ConfigReads(Reads):
    """The effective configuration, and the settings of the cluster."""

    @route("/v1/config", "The effective configuration, and the origin of each value", ConfigList)
    async def config(self, _request: web.Request) -> ConfigList:
        """Answer with the configuration by key; secrets are not shown."""
        return ConfigList(meta=self._context.meta(), items=list(view_config(self._sources.config())))

    @route(
        "/v1/settings",
        "Settings of the cluster as this instance uses them, and the values of the brokers",
        SettingList,
    )
    async def settings(self, _request: web.Request) -> SettingList:
        """Answer with the settings by name."""
        known, source = self._sources.cluster_settings(), self._sources.settings
        is_unclean = None if source is None else source.unclean_by_default()
        items = [] if known is None else [view_setting(each) for each in settings_in_use(known, is_unclean)]
        refusal = None if known is None else known.refusal
        return SettingList(meta=self._context.meta(), items=items, refusal=refusal)


def settings_in_use(known: Resolution, is_unclean: bool | None) -> Iterator[Resolved]:
    """Yield the settings by name; ``is_unclean``: whether dynamic configurations allow unclean elections.

    ``is_unclean`` is None on an instance that is not the controller: it has not read the dynamic configurations from
    ZooKeeper, and shows the answers of brokers, which contain them.
    """
    for name, resolved in sorted(known.settings.items()):
        if name == UNCLEAN and is_unclean not in {None, resolved.value.lower() == "true"}:
            yield resolved._replace(value=str(is_unclean).lower(), source=Source.DYNAMIC, origin=None)
        else:
            yield resolved


def view_setting(resolved: Resolved) -> SettingItem:
    """Return one setting in the form of the HTTP API."""
    return SettingItem(
        setting=resolved.setting.name,
        value=resolved.value,
        source=resolved.source.value,
        origin=resolved.origin,
        brokers=_values(resolved.brokers),
        differing=_values(resolved.differing),
        problem=resolved.problem,
    )


def _values(by_broker: Mapping[BrokerId, str]) -> list[BrokerValue]:
    return [BrokerValue(broker=broker, value=value) for broker, value in sorted(by_broker.items())]


def view_config(effective: Mapping[str, object]) -> Iterator[ConfigItem]:
    """Yield the keys in order, each with its ``value`` and ``origin``."""
    for key, given in sorted(effective.items()):
        assert isinstance(given, Mapping), "Config.effective gives a value and an origin for each key"
        value = given["value"]
        is_hidden = is_secret(key) and value not in {None, ""}
        yield ConfigItem(key=key, value=_MASK if is_hidden else value, origin=str(given["origin"]))


def is_secret(key: str) -> bool:
    """Whether the value of a key is hidden."""
    return bool(_SECRET.search(key)) and not _PLAIN.search(key)
