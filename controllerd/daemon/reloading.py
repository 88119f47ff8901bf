"""``systemctl reload``: on SIGHUP, reads the configuration again and uses the changed keys that need no restart."""

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
"""The keys whose new value is used at once. All others need a restart."""
_OF_SECRETS: Final = "the old one is used until then; a secret in a file (file:PATH, credential:NAME) needs no restart"
_ROLE: Final = "controller.when_broker_holds"

Renewal = Callable[[], object]
"""Reads a file of secrets again. :raises ConfigError: it cannot be used; the old secrets stay in use."""


class Reloader:
    """Holds the configuration in use and updates it. Of an invalid new configuration, nothing is used."""

    def __init__(self, config: Config, load: Callable[[], Config], renewals: Sequence[Renewal] = ()) -> None:
        """``load`` reads the configuration as at the start; it blocks on the disk and raises ``ConfigError``.

        ``renewals`` are called at every reload, because a file of secrets may have changed under the same name.
        """
        self.config = config
        self._load = load
        self._renewals = renewals

    async def reload(self) -> bool:
        """Read the configuration again and use its reloadable keys. Return whether one of these has changed."""
        try:
            new = await asyncio.to_thread(self._load)
        except ConfigError as error:
            for problem in error.problems:
                log.error(
                    "failed to reload configuration", problem=problem, next="the old one stays; repair, then reload"
                )
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
        log.info("reloaded configuration", changed={key: new.plain(key) for key in keys})
        return bool(keys)

    def _renew(self) -> None:
        for renewal in self._renewals:
            try:
                renewal()
            except ConfigError as error:
                for problem in error.problems:
                    log.error(
                        "failed to reload secrets", problem=problem, next="the old one stays; repair, then reload"
                    )


def _warn(key: str, old: Config, new: Config) -> None:
    """Log a changed key that needs a restart. For a secret, whose value is hidden, say how long the old one is used."""
    is_secret = isinstance(new.value(key), Secret) or isinstance(old.value(key), Secret)
    needed, more = f"restart needed: {key}", {"next": _OF_SECRETS} if is_secret else {}
    log.warning(needed, now=old.plain(key), configured=new.plain(key), **more)


def changed_keys(old: Config, new: Config) -> list[str]:
    """The keys with another value, in the order of the model.

    The remembered role in the data directory is left out, because it is in use already.
    """
    changed = [key for key in old.origins if old.value(key) != new.value(key)]
    return [key for key in changed if not (key == _ROLE and Path(new.origins[key]).name == ROLE_FILE)]
