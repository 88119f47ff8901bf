"""``systemctl reload``: on SIGHUP the configuration is read anew, and what may change in a running daemon changes."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from controllerd.config.model import Config, Secret
from controllerd.errors import ConfigError
from controllerd.identity import ROLE_FILE
from controllerd.logs import configure_logging

log = structlog.get_logger(__name__)

RELOADABLE: Final = ("log.level", "log.format")
"""Keys whose new value counts at once. All others need a restart."""
_OF_SECRETS: Final = "the old one counts until then; what is in a file (file:PATH, credential:NAME) needs no restart"
_ROLE: Final = "controller.when_broker_holds"

Renewal = Callable[[], object]
"""Reads a file of secrets anew. :raises ConfigError: it cannot be used; the old secrets stay in use."""


class Reloader:
    """Holds the configuration in use, and brings it up to date. Nothing of a wrong new one is used."""

    def __init__(self, config: Config, load: Callable[[], Config], renewals: Sequence[Renewal] = ()) -> None:
        """``load`` reads everything again as at the start; it blocks for the disk and raises ``ConfigError``.

        ``renewals`` are called with every reload: what they read may be new though its name is not.
        """
        self.config = config
        self._load = load
        self._renewals = renewals

    async def reload(self) -> bool:
        """Read the configuration anew and use what may be used; whether it was another one that is in use now."""
        try:
            new = await asyncio.to_thread(self._load)
        except ConfigError as error:
            for problem in error.problems:
                log.error("configuration not reloaded", problem=problem, next="the old one stays; repair, then reload")
            return False
        changed = changed_keys(self.config, new)
        for key in changed:
            if key not in RELOADABLE:
                _warn(key, self.config, new)
        self._renew()
        return self._use(new, [key for key in changed if key in RELOADABLE])

    def _use(self, new: Config, keys: list[str]) -> bool:
        if keys:
            origins = {**self.config.origins, **{key: new.origins[key] for key in keys}}
            self.config = msgspec.structs.replace(self.config, log=new.log, origins=origins)
            configure_logging(new.log.level, new.log.format)
        log.info("configuration reloaded", changed={key: new.plain(key) for key in keys})
        return bool(keys)

    def _renew(self) -> None:
        for renewal in self._renewals:
            try:
                renewal()
            except ConfigError as error:
                for problem in error.problems:
                    log.error("not renewed", problem=problem, next="the old one stays; repair, then reload")


def _warn(key: str, old: Config, new: Config) -> None:
    """A secret does not show, so it is said what the old one is still good for."""
    is_secret = isinstance(new.value(key), Secret) or isinstance(old.value(key), Secret)
    needed, more = f"restart needed: {key}", {"next": _OF_SECRETS} if is_secret else {}
    log.warning(needed, now=old.plain(key), configured=new.plain(key), **more)


def changed_keys(old: Config, new: Config) -> list[str]:
    """The keys that are configured differently, in the order of the model.

    What an operator had remembered in the data directory is in use already.
    """
    changed = [key for key in old.origins if old.value(key) != new.value(key)]
    return [key for key in changed if not (key == _ROLE and Path(new.origins[key]).name == ROLE_FILE)]
