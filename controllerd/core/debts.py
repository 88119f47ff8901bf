"""Replicas that a broker still has on its disks although nobody assigns them to it any more.

PURE. A broker that was away when a replica was removed learns of it when it is back (the peer forgets it, so the data
stays on disk for ever). Kept in ZooKeeper by the store, so that a failover does not lose it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from controllerd.core.changes import DebtSet
from controllerd.core.model import BrokerId, TopicPartition

NO_DEBT: Final[Mapping[TopicPartition, str | None]] = MappingProxyType({})


class DebtBook:
    """Owed deletions by broker: each partition with the id that its topic had, None if it had none."""

    def __init__(self, note: Callable[[DebtSet], None]) -> None:
        """``note`` takes the changes."""
        self._note = note
        self._owed: dict[BrokerId, Mapping[TopicPartition, str | None]] = {}

    def of(self, broker: BrokerId) -> Mapping[TopicPartition, str | None]:
        """What the broker has to delete."""
        return self._owed.get(broker, NO_DEBT)

    def brokers(self) -> list[BrokerId]:
        """The brokers that have to delete something, in order."""
        return sorted(self._owed)

    def set(self, broker: BrokerId, owed: Mapping[TopicPartition, str | None]) -> None:
        """All that the broker has to delete, as it was written to ZooKeeper."""
        if owed == self.of(broker):
            return
        self._owed.pop(broker, None)
        if owed:
            self._owed[broker] = dict(owed)
        self._note(DebtSet(broker, dict(owed)))
