"""Removes ISR members to which the partition is not assigned.

Such a member is left when a controller ends after it wrote an assignment and before it changed the ISR. It must be
removed, because the controller sends requests to assigned replicas only: it would stay in the ISR for ever.
"""

from collections.abc import Iterable
from functools import lru_cache

from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId
from controllerd.core.records import PartitionRecord
from controllerd.machines.isr_removal import IsrRemoval
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.slicer import by_broker


class UnassignedIsrMembers:
    """Finds and removes unassigned ISR members; a member that cannot be removed is noted, to be tried again."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def remove(self, records: Iterable[PartitionRecord]) -> None:
        """Stop these replicas and remove them from their ISRs; a leader among them gets a successor."""
        affected = await self._find(records)
        slicer = self._deps.slicer
        unassigned = await by_broker((each.tp, unassigned_isr_members_of(each)) async for each in slicer.each(affected))
        for broker, partitions in sorted(unassigned.items()):
            found = [self._deps.context.record(tp) for tp in partitions]
            async with self._deps.outbox.batch() as batch:
                batch.add_stops(broker, found, delete=False)
                removal = IsrRemoval(
                    broker, self._deps.context, self._deps.store.states, self._deps.audit, slicer, hand_over=True
                )
                done = await removal.run(found)
                batch.add_leaderships([(each, each.assignment.replicas) for each in done], is_new=False)
        await self.note(affected)

    async def note(self, records: Iterable[PartitionRecord]) -> None:
        """Note, to be tried again, those of the partitions that still have an unassigned ISR member."""
        self._deps.unfinished.note(record.tp for record in await self._find(records))

    async def _find(self, records: Iterable[PartitionRecord]) -> list[PartitionRecord]:
        """The partitions with an unassigned ISR member that can be removed; a cluster seldom has one."""
        hidden, found = hidden_topics(self._deps.context), list[PartitionRecord]()
        await self._deps.slicer.for_each_slice(
            list(records),
            lambda part: found.extend(
                [each for each in part if each.leadership is not None and not _is_assigned(each)]
            ),
        )
        return [each for each in found if each.tp.topic not in hidden and unassigned_isr_members_of(each)]


def unassigned_isr_members_of(record: PartitionRecord) -> list[BrokerId]:
    """The ISR members that are not assigned; empty if the ISR has no other members, because one must remain."""
    isr, replicas = record.leadership.isr if record.leadership is not None else (), record.assignment.replicas
    found = [broker for broker in isr if broker not in replicas]
    return found if len(found) < len(isr) else []


def _is_assigned(record: PartitionRecord) -> bool:
    """Whether every ISR member is assigned. A hot loop over all partitions, so fields of tuples are read by number."""
    return record.leadership is not None and _are_among(record.leadership[2], record.assignment[0])


@lru_cache(maxsize=4096)
def _are_among(isr: tuple[BrokerId, ...], replicas: tuple[BrokerId, ...]) -> bool:
    return set(isr) <= set(replicas)
