"""A decision of an operator about the role, kept beyond restarts: ``controllerctl takeover --remember``."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from controllerd.config.model import Config
from controllerd.errors import CallFailed
from controllerd.identity import Identity
from controllerd.ports.audit import AuditLog
from controllerd.record.records import ConfigRecord

log = structlog.get_logger(__name__)

_KEY: Final = "controller.when_broker_holds"


class RoleMemory:
    """Keeps ``when_broker_holds = takeover`` in the data directory, where the configuration says nothing about it."""

    def __init__(
        self, config: Config, identity: Identity, audit: AuditLog, take_from_brokers: Callable[[], None]
    ) -> None:
        """``take_from_brokers`` makes the running elector do so."""
        self._config = config
        self._identity = identity
        self._audit = audit
        self._take_from_brokers = take_from_brokers

    @property
    def why_not(self) -> str | None:
        """The reason why nothing can be remembered: the configuration says the opposite, and wins at every start."""
        controller, origin = self._config.controller, self._config.origins[_KEY]
        if controller.when_broker_holds == "takeover" or origin == "default":
            return None
        return f"{_KEY} = {controller.when_broker_holds} is configured ({origin}), which wins at the next start"

    async def remember(self) -> None:
        """From now on, and after every start, take the role from brokers. :raises CallFailed: it cannot be kept."""
        if self._config.controller.when_broker_holds == "takeover":
            return
        try:
            file = await asyncio.to_thread(self._identity.remember_takeover)
        except OSError as error:
            raise CallFailed(f"the role is ours, but that cannot be remembered: {error}") from error
        controller = msgspec.structs.replace(self._config.controller, when_broker_holds="takeover")
        origins = {**self._config.origins, _KEY: str(file)}
        self._config = msgspec.structs.replace(self._config, controller=controller, origins=origins)
        self._audit.record(ConfigRecord(self._config.effective()))
        self._take_from_brokers()
        log.info("from now on the role is taken from brokers", remembered_in=str(file))
