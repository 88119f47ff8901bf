"""``/v1/config``: what this instance is configured for, and who says so."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from aiohttp import web

from controllerd.status.answers import answer
from controllerd.status.reads.context import Reading, reading
from controllerd.status.routing import Route
from controllerd.status.schema.config import ConfigItem, ConfigList

_SECRET: Final = re.compile(r"password|secret|token|credential|passphrase|jaas")
_PLAIN: Final = re.compile(r"(_file|_dir|_path|_names?)$")
"""Where a secret is kept is none."""
_MASK: Final = "<hidden>"


class ConfigReads:
    """The effective configuration."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[Route]:
        """``/v1/config``."""
        return [
            reading("/v1/config", self.list, "The effective configuration, and where each value is from", ConfigList)
        ]

    async def list(self, _request: web.Request) -> web.Response:
        """By key; secrets are not shown."""
        items = list(view_config(self._reading.sources.config()))
        return answer(ConfigList(meta=self._reading.meta(), items=items))


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
