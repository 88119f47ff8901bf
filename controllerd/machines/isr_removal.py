"""Takes a broker out of the ISRs of many partitions: from the states that we know, and anew from those that moved."""

from collections.abc import Iterable, Mapping, Sequence

from controllerd.core.context import ControllerContext
from controllerd.core.election import LeaderEpochExhausted, shrink_isr
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.machines.known_states import known_states
from controllerd.machines.outbox import SLICE
from controllerd.machines.refusals import refuse
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, StateStore
from controllerd.results import Conflict, StatesRead, Written

Failed = list[tuple[TopicPartition, str]]


class IsrRemoval:
    """The removal of one broker; made for one call of the replica state machine."""

    def __init__(
        self, broker: BrokerId, context: ControllerContext, store: StateStore, audit: AuditLog, pace: Pace
    ) -> None:
        self._broker = broker
        self._context = context
        self._store = store
        self._audit = audit
        self._pace = pace
        self._done: set[TopicPartition] = set()
        self._failed: Failed = []

    async def run(self, records: Sequence[PartitionRecord]) -> list[PartitionRecord]:
        """The partitions whose ISR lacks the broker now, in their order. All of them have leadership."""
        known, remaining, quarantined = await known_states(records, self._context, self._pace)
        self._failed += quarantined.items()
        remaining += await self._remove(known)
        while remaining:
            usable = self._usable(await self._store.read_states(remaining))
            self._context.set_leaderships(self._outside(usable))
            remaining = await self._remove(usable)
        refuse(self._audit, "isr removal", self._failed)
        return [record for record in records if record.tp in self._done]

    def _outside(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> list[tuple[PartitionRecord, LeaderAndIsr]]:
        """States that were read and lack the broker already."""
        return [(self._context.record(tp), state) for tp, state in states.items() if self._broker not in state.isr]

    def _usable(self, read: StatesRead) -> Mapping[TopicPartition, LeaderAndIsr]:
        for tp, bad in read.broken.items():
            self._context.put_in_quarantine(bad.path, bad.reason)
            self._failed.append((tp, bad.reason))
        queued = self._context.queued_for_deletion
        self._failed += [(tp, "the state znode does not exist") for tp in read.missing if tp.topic not in queued]
        usable = {}
        for tp, state in read.states.items():
            if state.controller_epoch > self._context.epoch:
                self._failed.append((tp, f"written by controller epoch {state.controller_epoch}, a newer one"))
            else:
                usable[tp] = state
        return usable

    async def _remove(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> list[TopicPartition]:
        """Write the smaller ISRs; returns the partitions that lost the race."""
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        pace = self._pace
        for part in sliced(list(states.items()), SLICE):
            updates.update(self._shrink(part))
            await pace.breathe()
        return await self._write(updates) if updates else []

    def _shrink(self, part: Iterable[tuple[TopicPartition, LeaderAndIsr]]) -> dict[TopicPartition, LeaderAndIsr]:
        updates = {}
        for tp, state in part:
            shrunk = shrink_isr(state, self._broker, self._context.epoch)
            if shrunk is None:
                self._done.add(tp)
            elif isinstance(shrunk, LeaderEpochExhausted):
                self._failed.append((tp, "the leader epoch is exhausted"))
            else:
                updates[tp] = shrunk
        return updates

    async def _write(self, updates: Mapping[TopicPartition, LeaderAndIsr]) -> list[TopicPartition]:
        lost: list[TopicPartition] = []
        written: list[tuple[PartitionRecord, LeaderAndIsr]] = []
        results, pace = await self._store.update_states(updates), self._pace
        for part in sliced(list(results.items()), SLICE):
            for tp, result in part:
                if isinstance(result, Written):
                    written.append((self._context.record(tp), updates[tp].at(result.version)))
                    self._done.add(tp)
                elif isinstance(result, Conflict):
                    lost.append(tp)
                else:
                    self._failed.append((tp, result.reason))
            self._context.set_leaderships(written)
            written.clear()
            await pace.breathe()
        return lost
