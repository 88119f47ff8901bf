"""Stores an operator's decision about the role across restarts: ``controllerctl takeover --remember``."""

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


class RoleMemoryFile:
    """Stores ``when_broker_holds = takeover`` in the data directory. A configured value has precedence over it."""

    def __init__(
        self, config: Config, identity: Identity, audit: AuditLog, take_from_brokers: Callable[[], None]
    ) -> None:
        """``take_from_brokers`` makes the running elector take the role from brokers."""
        self._config = config
        self._identity = identity
        self._audit = audit
        self._take_from_brokers = take_from_brokers

    @property
    def why_not(self) -> str | None:
        """The reason why the decision cannot be stored: the configuration has another value; None if it can."""
        controller, origin = self._config.controller, self._config.origins[_KEY]
        if controller.when_broker_holds == "takeover" or origin == "default":
            return None
        return (
            f"{_KEY} = {controller.when_broker_holds} is configured ({origin}), which has precedence at the next start"
        )

    async def remember(self) -> None:
        """Take the role from brokers from now on and after every start. :raises CallFailed: it cannot be stored."""
        if self._config.controller.when_broker_holds == "takeover":
            return
        try:
            file = await asyncio.to_thread(self._identity.remember_takeover)
        except OSError as error:
            raise CallFailed(f"this instance has the role, but the decision cannot be stored: {error}") from error
        controller = msgspec.structs.replace(self._config.controller, when_broker_holds="takeover")
        origins = {**self._config.origins, _KEY: str(file)}
        self._config = msgspec.structs.replace(self._config, controller=controller, origins=origins)
        self._audit.record(ConfigRecord(self._config.effective()))
        self._take_from_brokers()
        log.info("stored decision to take the role from brokers", remembered_in=str(file))
