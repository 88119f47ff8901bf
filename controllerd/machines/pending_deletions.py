"""Replicas that brokers must still delete, kept in ZooKeeper before anybody forgets that they have them.

Written before an assignment loses a replica, whether its broker is live or not, and crossed out when the broker answers
that it deleted it: a controller that ends in between leaves no data behind, and a broker that is away learns of it when
it is back. The peer counts a replica as deleted when it has sent the request.
"""

from collections.abc import Collection, Iterable, Mapping

import structlog

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_progress import has_pending_of_earlier_topic
from controllerd.core.model import OUR_IDS, BrokerId, TopicPartition
from controllerd.errors import BadZnode
from controllerd.machines.passes import paced
from controllerd.pace import Pace
from controllerd.ports import AdminStore, AuditLog
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)

Owed = Mapping[TopicPartition, str | None]


class PendingReplicaDeletions:
    """The book of debts in the context, and its copy in ZooKeeper."""

    def __init__(self, context: ControllerContext, store: AdminStore, audit: AuditLog, pace: Pace) -> None:
        self._context = context
        self._store = store
        self._audit = audit
        self._pace = pace

    async def add(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        """These brokers have to delete these replicas."""
        changed: dict[BrokerId, Owed] = {}
        for broker, partitions in replicas.items():
            if broker in OUR_IDS:
                continue  # assigned by mistake: controllerd has no disk to delete anything from
            owed = self._context.pending_deletions.of(broker)
            more = {tp: self._id_to_owe(broker, tp) async for tp in paced(partitions, self._pace)}
            if not more.items() <= owed.items():
                changed[broker] = {**owed, **more}
        await self._write(changed)

    def _id_to_owe(self, broker: BrokerId, tp: TopicPartition) -> str | None:
        """What is owed of an earlier topic of that name stays so: no other could begin where that one still is."""
        if has_pending_of_earlier_topic(self._context, broker, tp):
            return self._context.pending_deletions.of(broker)[tp]
        return self._context.topic_id(tp.topic)

    async def clear(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """The broker owes these no longer: it has nothing of them any more, or is to have them."""
        await self._clear({broker: partitions})

    async def clear_all(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        """These brokers are to have these replicas after all; those of earlier topics must go all the same."""
        settled: dict[BrokerId, list[TopicPartition]] = {}
        for broker, partitions in replicas.items():
            settled[broker] = [tp for tp in partitions if not has_pending_of_earlier_topic(self._context, broker, tp)]
        await self._clear(settled)

    async def waive(self, replicas: Mapping[BrokerId, Collection[TopicPartition]]) -> None:
        """As ``clear_all``, where brokers may have been told to delete these: until they answer, none of them may lead
        from outside the ISR.
        """
        for broker, partitions in replicas.items():
            self._context.pending_deletions.waive(broker, partitions)
        await self.clear_all(replicas)

    async def _clear(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        changed: dict[BrokerId, Owed] = {}
        for broker, partitions in replicas.items():
            owed = self._context.pending_deletions.of(broker)
            if not owed:
                continue
            settled = owed.keys() & set(partitions)
            if settled:
                changed[broker] = {tp: topic_id for tp, topic_id in owed.items() if tp not in settled}
        await self._write(changed)

    async def _write(self, changed: Mapping[BrokerId, Owed]) -> None:
        """A debt that ZooKeeper refuses is known to us as long as we lead: data on a disk is no reason to stop."""
        if not changed:
            return
        try:
            await self._store.write_pending_deletions(changed)
        except BadZnode as bad:
            log.error("owed deletions were not written", path=bad.path, reason=bad.reason)
            self._audit.record(AlarmRecord("owed deletions were not written", str(bad)))
        for broker, owed in changed.items():
            self._context.pending_deletions.set(broker, owed)
