"""Replicas that a broker still has on its disks although nobody assigns them to it any more.

PURE. A broker that was away when a replica was removed learns of it when it is back (the peer forgets it, so the data
stays on disk for ever). Kept in ZooKeeper by the store, so that a failover does not lose it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final

from controllerd.core.changes import PendingDeletionsSet
from controllerd.core.model import BrokerId, TopicPartition

NOTHING_PENDING: Final[Mapping[TopicPartition, str | None]] = MappingProxyType({})


class PendingDeletions:
    """Owed deletions by broker: each partition with the id that its topic had, None if it had none."""

    def __init__(self, note: Callable[[PendingDeletionsSet], None]) -> None:
        """``note`` takes the changes."""
        self._note = note
        self._owed: dict[BrokerId, Mapping[TopicPartition, str | None]] = {}
        self._ordered: dict[BrokerId, set[TopicPartition]] = {}
        self._under_way: dict[BrokerId, Counter[TopicPartition]] = {}
        self._waived: dict[BrokerId, set[TopicPartition]] = {}

    def of(self, broker: BrokerId) -> Mapping[TopicPartition, str | None]:
        """What the broker has to delete."""
        return self._owed.get(broker, NOTHING_PENDING)

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
        self._ordered.get(broker, set()).intersection_update(owed)
        self._note(PendingDeletionsSet(broker, dict(owed)))

    # -- what was asked for --------------------------------------------------------------------------------------------

    def order(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """The broker is being told to delete these: whichever of them it owes, or was told before and has not answered.

        Every order is answered once, in order, as long as the broker and its channel last.
        """
        owed, under_way = self.of(broker), self._under_way.setdefault(broker, Counter())
        if not owed and not under_way:
            return
        counted = [tp for tp in partitions if tp in owed or tp in under_way]
        under_way.update(counted)
        self._ordered.setdefault(broker, set()).update(owed.keys() & counted)

    def ordered(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """What the broker owes and was told in this life of it, and by this controller, to delete."""
        return self._ordered.get(broker, frozenset())

    def was_ordered(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether the broker was told in this life of it, and by this controller, to delete what it owes here."""
        return tp in self.ordered(broker)

    def take_answer(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """The broker answered an order to delete this one: count it, and say whether that was the newest.

        If it was not, the replica may have begun anew between the two, so that the answer says nothing of it.
        """
        under_way = self._under_way.get(broker)
        if under_way is None:
            return True
        if under_way[tp] > 1:
            under_way[tp] -= 1
            return False
        del under_way[tp]
        return True

    def end_channel(self, broker: BrokerId) -> None:
        """The channel is opened anew: what waited there is never answered, though the broker may have taken it."""
        self._under_way.pop(broker, None)

    def end_life(self, broker: BrokerId) -> None:
        """The broker is gone: it takes no order any more that was meant for its life."""
        self.end_channel(broker)
        self._ordered.pop(broker, None)
        self._waived.pop(broker, None)

    # -- what is wanted again ------------------------------------------------------------------------------------------

    def waive(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """The broker is to have these again; call it before they are owed no longer.

        What it was told to delete, it deletes all the same: the order waits for a slow broker before everything that
        was sent since, and the replica begins anew after it.
        """
        if going := self.ordered(broker) & set(partitions):
            self._waived.setdefault(broker, set()).update(going)

    def is_going(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether the replica may be deleted at any moment, though it may be wanted: the broker has not answered."""
        return tp in self._waived.get(broker, ()) or self.was_ordered(broker, tp)

    def end_waiver(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The broker is past the newest order to delete these; returns those that it is to have again, in order."""
        waived = self._waived.get(broker)
        if not waived:
            return []
        ended = waived.intersection(partitions)
        waived -= ended
        return sorted(ended)
