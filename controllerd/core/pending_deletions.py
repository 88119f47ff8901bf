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
        """The pending deletions that were sent in this life of the broker."""
        self._unanswered: dict[BrokerId, Counter[TopicPartition]] = {}
        """How many requests to delete each replica the broker was sent and has not answered."""
        self._waived: dict[BrokerId, set[TopicPartition]] = {}
        """Replicas that are assigned again, and that the broker may still delete."""

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

    def note_sent(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Note that the broker is being sent StopReplica(delete) for these replicas.

        Replicas whose deletion is neither pending nor unanswered are not noted. Every request is answered once, in
        order, as long as the broker and its channel last.
        """
        pending, unanswered = self.of(broker), self._unanswered.setdefault(broker, Counter())
        if not pending and not unanswered:
            return
        counted = [tp for tp in partitions if tp in pending or tp in unanswered]
        unanswered.update(counted)
        self._sent.setdefault(broker, set()).update(pending.keys() & counted)

    def sent(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The pending deletions that this controller has sent in this life of the broker."""
        return self._sent.get(broker, frozenset())

    def was_sent(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether this controller has sent this pending deletion in this life of the broker."""
        return tp in self.sent(broker)

    def take_answer(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Count the answer to a request to delete the replica; returns whether it answers the newest such request.

        After an older request the replica may have been started again, so that the answer does not say whether the
        replica exists now.
        """
        unanswered = self._unanswered.get(broker)
        if unanswered is None:
            return True
        if unanswered[tp] > 1:
            unanswered[tp] -= 1
            return False
        del unanswered[tp]
        return True

    def end_channel(self, broker: BrokerId) -> None:
        """Forget unanswered requests: the channel is new, so none is answered, though the broker may have got them."""
        self._unanswered.pop(broker, None)

    def end_life(self, broker: BrokerId) -> None:
        """Forget the requests to a broker that is gone: they carry its broker epoch, which its next life refuses."""
        self.end_channel(broker)
        self._sent.pop(broker, None)
        self._waived.pop(broker, None)

    # -- waivers -------------------------------------------------------------------------------------------------------

    def waive(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Waive deletions of replicas that are assigned to the broker again; call it before they are cleared.

        If the broker was sent the request, it still deletes the data: the request precedes everything that was sent
        since, and the replica is started again after it.
        """
        if sent := self.sent(broker) & set(partitions):
            self._waived.setdefault(broker, set()).update(sent)

    def is_going(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether the broker may delete the replica at any moment, though it may be assigned again."""
        return tp in self._waived.get(broker, ()) or self.was_sent(broker, tp)

    def end_waiver(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """End the waivers that the broker has answered; returns their replicas in order."""
        waived = self._waived.get(broker)
        if not waived:
            return []
        ended = waived.intersection(partitions)
        waived -= ended
        return sorted(ended)
