"""What handlers need of ZooKeeper for operators' wishes and for configurations; the rest is in ``ports.py``."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from controllerd.core.pauses import PausesRead
from controllerd.core.throttles import Throttle
from controllerd.errors import BadZnode
from controllerd.results import ConfigRead, WriteResult


class IntentStore(Protocol):
    """Our own znodes about operators' wishes, and configurations that we change for others."""

    async def read_configs(self, entities: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """Configurations below ``/config``, such as ``brokers/1``; or why one cannot be understood."""
        ...

    async def write_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write each on the condition of the version read, and tell brokers in the same transaction. Fenced."""
        ...

    async def read_pauses(self) -> PausesRead:
        """What operators told us to leave alone. :raises BadZnode: it cannot be understood."""
        ...

    async def write_pauses(self, pauses: PausesRead) -> None:
        """Replace the pauses. Fenced. :raises BadZnode: what is there is left, as nobody understands it."""
        ...

    async def read_throttle(self) -> Throttle | None:
        """The throttle of reassignments that is to be taken away. :raises BadZnode: it cannot be understood."""
        ...

    async def write_throttle(self, throttle: Throttle | None) -> None:
        """Replace what is remembered of the throttle. Fenced. :raises BadZnode: what is there is left."""
        ...

    async def read_user_configs(self, users: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """The configurations of users, by their names as they have them; or why one cannot be understood."""
        ...

    async def write_user_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write each on the condition of the version read, and tell brokers in the same transaction. Fenced."""
        ...
