"""Pending replica deletions: replicas that brokers must still delete, kept in ZooKeeper until the brokers have.

**The rule.** A deletion becomes pending before an assignment loses the replica, and is cleared when the broker answers
that it has deleted it, or when the replica is assigned to the broker again. Without the znode, two things would leave
data on a disk for ever. The broker may be away when the replica is removed; after that no assignment names it, so no
later request would. Or this controller may end after it has written the assignment and before the broker has the
request; the next controller sees only the assignment. Kafka's controller counts a replica as deleted once the request
is sent, and has both gaps.

**Too many rather than too few.** A pending deletion whose assignment was never written is harmless: the next
``send_pending_deletions`` finds the replica assigned, and clears it. So a write of the znode that ZooKeeper refuses
stops nothing: the deletion stays pending in memory for as long as this controller leads.

**Topic ids.** Each pending deletion carries the id that its topic had. StopReplica names no id, so a topic that was
created anew under the same name must not be confused with the earlier one: the pending deletion of the earlier topic
stays, until the broker has answered (``services/pending_deletions.py``).

**Waivers.** A broker that was sent the deletion deletes the data even if the replica was assigned to it again
meanwhile. Until it answers, the deletion is waived but not over, and no election from outside the ISR may choose that
broker: it would lead with data that it is about to delete.
"""

from collections.abc import Collection, Iterable, Mapping

import structlog

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_progress import has_pending_of_earlier_topic
from controllerd.core.model import OUR_IDS, BrokerId, TopicPartition
from controllerd.errors import BadZnode
from controllerd.ports.audit import AuditLog
from controllerd.ports.own_znodes import PendingDeletionStore
from controllerd.record.records import AlarmRecord
from controllerd.slicer import Slicer

log = structlog.get_logger(__name__)

Pending = Mapping[TopicPartition, str | None]


class PendingReplicaDeletions:
    """The pending deletions of the context, and their copy in ZooKeeper."""

    def __init__(
        self, context: ControllerContext, store: PendingDeletionStore, audit: AuditLog, slicer: Slicer
    ) -> None:
        self._context = context
        self._store = store
        self._audit = audit
        self._slicer = slicer

    async def add(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        """Make the deletion of these replicas pending."""
        changed: dict[BrokerId, Pending] = {}
        for broker, partitions in replicas.items():
            if broker in OUR_IDS:
                continue  # assigned by mistake: controllerd has no disk to delete anything from
            before = self._context.pending_deletions.of(broker)
            more = {tp: self._id_of(broker, tp) async for tp in self._slicer.each(partitions)}
            if not more.items() <= before.items():
                changed[broker] = {**before, **more}
        await self._write(changed)

    def _id_of(self, broker: BrokerId, tp: TopicPartition) -> str | None:
        """The id of the topic that the replica on the disk belongs to.

        While the deletion of a replica of an earlier topic is pending, that replica is still on the disk.
        """
        if has_pending_of_earlier_topic(self._context, broker, tp):
            return self._context.pending_deletions.of(broker)[tp]
        return self._context.topic_id(tp.topic)

    async def clear(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Clear pending deletions: the broker has deleted the replicas, or they are assigned to it again."""
        await self._clear({broker: partitions})

    async def clear_all(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        """Clear the pending deletions of replicas that are assigned again.

        Replicas of an earlier topic of the same name must still be deleted: their deletions stay pending.
        """
        cleared: dict[BrokerId, list[TopicPartition]] = {}
        for broker, partitions in replicas.items():
            cleared[broker] = [tp for tp in partitions if not has_pending_of_earlier_topic(self._context, broker, tp)]
        await self._clear(cleared)

    async def waive(self, replicas: Mapping[BrokerId, Collection[TopicPartition]]) -> None:
        """As ``clear_all``, for brokers that may have been sent the deletion: it is waived until they answer."""
        for broker, partitions in replicas.items():
            self._context.pending_deletions.waive(broker, partitions)
        await self.clear_all(replicas)

    async def _clear(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        changed: dict[BrokerId, Pending] = {}
        for broker, partitions in replicas.items():
            pending = self._context.pending_deletions.of(broker)
            if not pending:
                continue
            cleared = pending.keys() & set(partitions)
            if cleared:
                changed[broker] = {tp: topic_id for tp, topic_id in pending.items() if tp not in cleared}
        await self._write(changed)

    async def _write(self, changed: Mapping[BrokerId, Pending]) -> None:
        """Write the pending deletions of these brokers to ZooKeeper, then put them into the context.

        If ZooKeeper refuses the write, they are pending in memory alone: data on a disk is no reason to stop.
        """
        if not changed:
            return
        try:
            await self._store.write_pending_deletions(changed)
        except BadZnode as bad:
            log.error("pending deletions were not written", path=bad.path, reason=bad.reason)
            self._audit.record(AlarmRecord("owed deletions were not written", str(bad)))
        for broker, pending in changed.items():
            self._context.pending_deletions.set(broker, pending)
