"""Pending replica deletions in the context: replicas that are on a broker's disks and no longer assigned to it.

PURE. ``machines/pending_deletions.py`` gives the rule, and keeps them in ZooKeeper.
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
    """Pending deletions by broker: each partition with the id that its topic had, None if it had none."""

    def __init__(self, note: Callable[[PendingDeletionsSet], None]) -> None:
        """``note`` takes the changes."""
        self._note = note
        self._pending: dict[BrokerId, Mapping[TopicPartition, str | None]] = {}
        self._sent: dict[BrokerId, set[TopicPartition]] = {}
        self._under_way: dict[BrokerId, Counter[TopicPartition]] = {}
        self._waived: dict[BrokerId, set[TopicPartition]] = {}

    def of(self, broker: BrokerId) -> Mapping[TopicPartition, str | None]:
        """The pending deletions of the broker."""
        return self._pending.get(broker, NOTHING_PENDING)

    def brokers(self) -> list[BrokerId]:
        """The brokers with pending deletions, in order."""
        return sorted(self._pending)

    def set(self, broker: BrokerId, pending: Mapping[TopicPartition, str | None]) -> None:
        """Replace the pending deletions of the broker by those that ZooKeeper has now."""
        if pending == self.of(broker):
            return
        self._pending.pop(broker, None)
        if pending:
            self._pending[broker] = dict(pending)
        self._sent.get(broker, set()).intersection_update(pending)
        self._note(PendingDeletionsSet(broker, dict(pending)))

    # -- requests ------------------------------------------------------------------------------------------------------

    def order(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Note that the broker is being sent StopReplica(delete) for these, as far as they are pending or unanswered.

        Every request is answered once, in order, as long as the broker and its channel last.
        """
        pending, under_way = self.of(broker), self._under_way.setdefault(broker, Counter())
        if not pending and not under_way:
            return
        counted = [tp for tp in partitions if tp in pending or tp in under_way]
        under_way.update(counted)
        self._sent.setdefault(broker, set()).update(pending.keys() & counted)

    def ordered(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The pending deletions that this controller has sent in this life of the broker."""
        return self._sent.get(broker, frozenset())

    def was_ordered(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether this controller has sent this pending deletion in this life of the broker."""
        return tp in self.ordered(broker)

    def take_answer(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Count the answer to a request to delete the replica; returns whether it was the newest request.

        After an older one the replica may have been started again, so that its answer says nothing about it.
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
        """Forget unanswered requests: the channel is new, so none is answered, though the broker may have got them."""
        self._under_way.pop(broker, None)

    def end_life(self, broker: BrokerId) -> None:
        """Forget the requests to a broker that is gone: its next life takes none of them."""
        self.end_channel(broker)
        self._sent.pop(broker, None)
        self._waived.pop(broker, None)

    # -- waivers -------------------------------------------------------------------------------------------------------

    def waive(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Waive deletions of replicas that the broker is to have again; call it before they are cleared.

        The broker deletes the data all the same if it was sent the request: the request is in front of everything that
        was sent since, and the replica is started again after it.
        """
        if going := self.ordered(broker) & set(partitions):
            self._waived.setdefault(broker, set()).update(going)

    def is_going(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether the broker may delete the replica at any moment, though it may be assigned again."""
        return tp in self._waived.get(broker, ()) or self.was_ordered(broker, tp)

    def end_waiver(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """End the waivers that the broker has answered; returns their replicas in order."""
        waived = self._waived.get(broker)
        if not waived:
            return []
        ended = waived.intersection(partitions)
        waived -= ended
        return sorted(ended)
