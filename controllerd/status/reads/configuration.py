"""``/v1/config`` and ``/v1/settings``: the configuration of this instance and of the cluster, with its sources."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from aiohttp import web

from controllerd.core.cluster_settings import UNCLEAN
from controllerd.core.model import BrokerId
from controllerd.core.resolved_settings import Resolution, Resolved, Source
from controllerd.status.answers import answer
from controllerd.status.reads.context import Reading, reading
from controllerd.status.routing import Route
from controllerd.status.schema.config import BrokerValue, ConfigItem, ConfigList, SettingItem, SettingList

_SECRET: Final = re.compile(r"password|secret|token|credential|passphrase|jaas")
_PLAIN: Final = re.compile(r"(_file|_dir|_path|_names?)$")
"""Where a secret is kept is none."""
_MASK: Final = "<hidden>"


class ConfigReads:
    """The effective configuration, and the settings of the cluster."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/config`` and ``/v1/settings``."""
        return [
            reading("/v1/config", self.list, "The effective configuration, and where each value is from", ConfigList),
            reading(
                "/v1/settings",
                self.settings,
                "Settings of the cluster as this instance uses them, and the values of the brokers",
                SettingList,
            ),
        ]

    async def list(self, _request: web.Request) -> web.Response:
        """By key; secrets are not shown."""
        items = list(view_config(self._reading.sources.config()))
        return answer(ConfigList(meta=self._reading.meta(), items=items))

    async def settings(self, _request: web.Request) -> web.Response:
        """By name."""
        known = self._reading.sources.cluster_settings()
        source = self._reading.sources.settings
        is_unclean = None if source is None else source.unclean_by_default()
        items = [] if known is None else [view_setting(each) for each in settings_in_use(known, is_unclean)]
        refusal = None if known is None else known.refusal
        return answer(SettingList(meta=self._reading.meta(), items=items, refusal=refusal))


def settings_in_use(known: Resolution, is_unclean: bool | None) -> Iterator[Resolved]:
    """Return the settings by name; ``is_unclean`` is what dynamic configurations make of unclean elections.

    ``is_unclean`` is None on an instance that does not lead: it has not read the dynamic configurations from ZooKeeper,
    and shows the answers of brokers, which contain them.
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


def _values(told: Mapping[BrokerId, str]) -> list[BrokerValue]:
    return [BrokerValue(broker=broker, value=value) for broker, value in sorted(told.items())]


def view_config(effective: Mapping[str, object]) -> Iterator[ConfigItem]:
    """The keys in order, each with its ``value`` and ``origin``."""
    for key, given in sorted(effective.items()):
        assert isinstance(given, Mapping), "Config.effective gives a value and an origin for each key"
        value = given["value"]
        is_hidden = is_secret(key) and value not in {None, ""}
        yield ConfigItem(key=key, value=_MASK if is_hidden else value, origin=str(given["origin"]))


def is_secret(key: str) -> bool:
    """Whether the value of a key is for nobody's eyes."""
    return bool(_SECRET.search(key)) and not _PLAIN.search(key)
