"""Members of ISRs that have no replica: what a controller leaves that ends between an assignment and its effects."""

from collections.abc import Iterable
from functools import lru_cache

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId
from controllerd.core.records import PartitionRecord
from controllerd.machines.isr_removal import IsrRemoval
from controllerd.machines.outbox import SLICE, Outbox
from controllerd.machines.passes import by_broker, paced
from controllerd.machines.reassignment.unfinished import Unfinished
from controllerd.pace import sliced
from controllerd.ports import AuditLog, StateStore


class UnassignedIsrMembers:
    """Takes them out. Who cannot be taken out is noted, to be tried again."""

    def __init__(
        self, context: ControllerContext, store: StateStore, outbox: Outbox, audit: AuditLog, unfinished: Unfinished
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._audit = audit
        self._unfinished = unfinished

    async def remove(self, records: Iterable[PartitionRecord]) -> None:
        """Stop them and take them out; a leader that goes hands over."""
        invaded = await self._find(records)
        pace = self._outbox.pace
        strangers = await by_broker((each.tp, unassigned_isr_members_of(each)) async for each in paced(invaded, pace))
        for broker, partitions in sorted(strangers.items()):
            found = [self._context.record(tp) for tp in partitions]
            async with self._outbox.batch() as batch:
                batch.add_stops(broker, found, delete=False)
                removal = IsrRemoval(broker, self._context, self._store, self._audit, pace, hand_over=True)
                told = await removal.run(found)
                batch.add_leaderships([(each, each.assignment.replicas) for each in told], is_new=False)
        await self.note(invaded)

    async def note(self, records: Iterable[PartitionRecord]) -> None:
        """Those of these partitions that still have one are to be looked at again."""
        self._unfinished.note(record.tp for record in await self._find(records))

    async def _find(self, records: Iterable[PartitionRecord]) -> list[PartitionRecord]:
        """Of all there are hardly ever one."""
        hidden, found = hidden_topics(self._context), list[PartitionRecord]()
        for part in sliced(list(records), SLICE):
            found += [each for each in part if each.leadership is not None and not _is_assigned(each)]
            await self._outbox.pace.breathe()
        return [each for each in found if each.tp.topic not in hidden and unassigned_isr_members_of(each)]


def unassigned_isr_members_of(record: PartitionRecord) -> list[BrokerId]:
    """ISR members without a replica, if there are others."""
    isr, replicas = record.leadership.isr if record.leadership is not None else (), record.assignment.replicas
    found = [broker for broker in isr if broker not in replicas]
    return found if len(found) < len(isr) else []


def _is_assigned(record: PartitionRecord) -> bool:
    """Whether whoever is in sync has a replica."""
    return record.leadership is not None and _are_among(record.leadership[2], record.assignment[0])


@lru_cache(maxsize=4096)
def _are_among(isr: tuple[BrokerId, ...], replicas: tuple[BrokerId, ...]) -> bool:
    return set(isr) <= set(replicas)
