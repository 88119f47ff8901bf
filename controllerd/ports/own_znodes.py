"""The znodes of controllerd itself, below ``/controllerd``. The active controller is their only writer."""

from collections.abc import Mapping
from typing import Protocol

from controllerd.core.intents import PausesRead
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.throttles import Throttle


class OperatorStore(Protocol):
    """Requests of operators that outlive a controller: pauses, and the throttle of reassignments."""

    async def read_pauses(self) -> PausesRead:
        """Return the stored pauses. :raises BadZnode: they cannot be decoded."""
        ...

    async def write_pauses(self, pauses: PausesRead) -> None:
        """Replace the stored pauses. Fenced. :raises BadZnode: the znode cannot be decoded, and is not changed."""
        ...

    async def read_throttle(self) -> Throttle | None:
        """Return the throttle that is to be removed after reassignments. :raises BadZnode: it cannot be decoded."""
        ...

    async def write_throttle(self, throttle: Throttle | None) -> None:
        """Replace the stored throttle. Fenced. :raises BadZnode: the znode cannot be decoded, and is not changed."""
        ...


class PendingDeletionStore(Protocol):
    """Replicas that absent brokers must delete when they are back, with the ids of their topics."""

    async def read_pending_deletions(self) -> Mapping[BrokerId, Mapping[TopicPartition, str | None]]:
        """Read the pending deletions of all brokers.

        A znode that cannot be decoded is left out and logged: it concerns data on one disk, not leadership.
        """
        ...

    async def write_pending_deletions(self, pending: Mapping[BrokerId, Mapping[TopicPartition, str | None]]) -> None:
        """Replace the pending deletions of these brokers; an empty mapping deletes the broker's znode. Fenced.

        :raises BadZnode: one is left unchanged, because it cannot be decoded or ZooKeeper refuses the write; the others
            are written.
        """
        ...
