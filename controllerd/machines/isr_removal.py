"""Takes a broker out of the ISRs of many partitions: from the states that we know, and anew from those that moved."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.election import LeaderEpochExhausted, shrink_isr
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.transitions import is_valid_replica_move
from controllerd.errors import IllegalState
from controllerd.machines.known_states import known_states
from controllerd.machines.outbox import SLICE
from controllerd.machines.refusals import refuse
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, Conflict, StatesRead, StateStore, WriteResult, Written

BESIDE_S: Final = 0.001
"""So many seconds a pass may keep the loop while something more urgent runs beside it."""
Failed = list[tuple[TopicPartition, str]]


class IsrRemoval:
    """The removal of one broker; made for one call of the replica state machine.

    Partitions that nothing else of the event touches may be written ahead of ``run``, by ``begin`` beside the event's
    other work. The context learns of that from ``run``, as of every other write.
    """

    def __init__(
        self,
        broker: BrokerId,
        context: ControllerContext,
        store: StateStore,
        audit: AuditLog,
        pace: Pace,
        ahead: Sequence[TopicPartition] = (),
    ) -> None:
        """``ahead`` are the partitions to ``begin`` with where that can be done; ``run`` waits for it."""
        self.broker: Final = broker
        self._context = context
        self._store = store
        self._audit = audit
        self._pace = pace
        self._done: set[TopicPartition] = set()
        self._failed: Failed = []
        self._ahead = ahead
        self._begun: dict[TopicPartition, tuple[LeaderAndIsr, WriteResult]] = {}
        self._has_begun = asyncio.Event()
        if not ahead:
            self._has_begun.set()

    async def begin(self) -> None:
        """Write ahead, at a gentle pace: whoever runs beside this is in more of a hurry."""
        pace = Pace(BESIDE_S)
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        for part in sliced(self._ahead, SLICE):
            records = (self._context.find(tp) for tp in part)
            followed = [record for record in records if record is not None and self._follows(record)]
            known = (await known_states(followed, self._context, pace)).known
            shrunk = ((tp, shrink_isr(state, self.broker, self._context.epoch)) for tp, state in known.items())
            updates.update((tp, after) for tp, after in shrunk if isinstance(after, LeaderAndIsr))
            await pace.breathe()
        results = await self._store.update_states(updates) if updates else {}
        self._begun = {tp: (updates[tp], result) for tp, result in results.items()}
        self._has_begun.set()

    def _follows(self, record: PartitionRecord) -> bool:
        """Whether no election is due, and ``run`` will be asked for it."""
        leadership, broker = record.leadership, self.broker
        return (
            leadership is not None
            and leadership.leader != broker
            and broker in leadership.isr
            and record.state is PartitionState.ONLINE
            and is_valid_replica_move(record.replica_states[broker], ReplicaState.OFFLINE)
        )

    async def run(self, records: Sequence[PartitionRecord]) -> list[PartitionRecord]:
        """The partitions whose ISR lacks the broker now, in their order. All of them have leadership.

        :raises IllegalState: a partition that was written ahead is not among them, or has changed in between.
        """
        await self._has_begun.wait()
        known, remaining, quarantined = await known_states(records, self._context, self._pace)
        self._failed += quarantined.items()
        remaining += await self._remove(known)
        if self._begun:
            raise IllegalState(f"{len(self._begun)} ISRs were written ahead, and nobody asked for them")
        while remaining:
            usable = self._usable(await self._store.read_states(remaining))
            self._context.set_leaderships(self._outside(usable))
            remaining = await self._remove(usable)
        refuse(self._audit, "isr removal", self._failed)
        return [record for record in records if record.tp in self._done]

    def _outside(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> list[tuple[PartitionRecord, LeaderAndIsr]]:
        """States that were read and lack the broker already."""
        return [(self._context.record(tp), state) for tp, state in states.items() if self.broker not in state.isr]

    def _usable(self, read: StatesRead) -> Mapping[TopicPartition, LeaderAndIsr]:
        for tp, bad in read.broken.items():
            self._context.put_in_quarantine(bad.path, bad.reason)
            self._failed.append((tp, bad.reason))
        queued = self._context.is_queued_for_deletion
        self._failed += [(tp, "the state znode does not exist") for tp in read.missing if not queued(tp.topic)]
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
            shrunk = shrink_isr(state, self.broker, self._context.epoch)
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
        results, pace = await self._results(updates), self._pace
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

    async def _results(self, updates: Mapping[TopicPartition, LeaderAndIsr]) -> Mapping[TopicPartition, WriteResult]:
        """Of what was written ahead, and of what is written now."""
        begun = self._begun
        same = {tp: begun.pop(tp)[1] for tp, update in updates.items() if tp in begun and begun[tp][0] == update}
        left = {tp: update for tp, update in updates.items() if tp not in same} if same else updates
        return same | dict(await self._store.update_states(left)) if left else same
