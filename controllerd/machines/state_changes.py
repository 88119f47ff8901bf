"""Changes to the states of many partitions: decide, write, and decide again for each partition that lost the race.

**The order of write and send.** A new leadership is written to ZooKeeper first, then put into the context, then added
to the request batch; the batch leaves when the state machine's call ends (``outbox.py``). A request that left before
the write could name a leader that ZooKeeper does not have: if this controller ended between the two, its successor
would load the earlier state and might elect another leader with the same leader epoch. Brokers accept a greater leader
epoch only, so a broker that got the first request would ignore the second, and the partition would have two leaders. A
write without its request is harmless, because the successor sends to every broker what it loads.

**The fence.** Each write demands two versions at once. The transaction checks ``/controller_epoch`` against the version
that our election wrote: if it fails, another controller has been elected, and the store raises ``ControllerMoved``
before anything of this batch is sent. And each state znode is written on the condition that its version is the
partition epoch of the state that the decision was made on. If that fails, only this partition was changed meanwhile:
it lost the race, is read, and is decided again on what was read.

**Which states are read.** Since 2.7-IV2 only the active controller writes partition states (KIP-497), so the context
has what ZooKeeper has, and a decision needs no read. Under earlier protocol versions leaders write their ISRs
themselves, and every state is read before it is changed. A state that names a later controller epoch than ours is read
in any case, and is refused if ZooKeeper still has it: a later controller wrote it, and this one is about to learn that
it was replaced. A state in quarantine is refused until an event has taken it out.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.election import LeaderEpochExhausted, bump_leader_epoch
from controllerd.core.model import NO_LEADER, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.machines.recorded import record_refusals
from controllerd.ports.audit import AuditLog
from controllerd.ports.results import Conflict, StatesRead, WriteResult, Written
from controllerd.ports.states import StateUpdater
from controllerd.slicer import Slicer

States = Mapping[TopicPartition, LeaderAndIsr]
NewLeadership = tuple[PartitionRecord, LeaderAndIsr]
"""A partition and its new leadership."""


class StateChange(ABC):
    """One change to many partitions, made for one call of a state machine."""

    def __init__(self, context: ControllerContext, states: StateUpdater, audit: AuditLog, slicer: Slicer) -> None:
        self._context = context
        self._states = states
        self._audit = audit
        self._slicer = slicer
        self.failed: dict[TopicPartition, str] = {}
        """Why partitions were left as they are."""

    @abstractmethod
    async def decide(self, states: States) -> dict[TopicPartition, LeaderAndIsr]:
        """Return what to write; a partition that needs no change, or cannot be changed, is left out."""

    @abstractmethod
    def take_written(self, written: Sequence[NewLeadership]) -> None:
        """Handle a slice of the new leaderships that ZooKeeper has written."""

    async def write(self, updates: States) -> Mapping[TopicPartition, WriteResult]:
        """Write the decisions."""
        return await self._states.update_states(updates)

    def is_expected_to_lack_state(self, _tp: TopicPartition) -> bool:
        """Whether it is no failure that the state znode of the partition does not exist."""
        return False

    async def change(self, records: Sequence[PartitionRecord]) -> None:
        """Decide and write, and repeat both for the partitions that lost the race. All of them have leadership."""
        known, remaining, quarantined = await known_states(records, self._context, self._slicer)
        self.failed.update(quarantined)
        remaining += await self._decide_and_write(known)
        while remaining:
            remaining = await self._decide_and_write(self._usable(await self._states.read_states(remaining)))

    async def _decide_and_write(self, states: States) -> list[TopicPartition]:
        """Decide and write once; returns the partitions that lost the race."""
        updates = await self.decide(states)
        return await self._write(updates) if updates else []

    def _usable(self, read: StatesRead) -> States:
        for bad in read.broken.values():
            self._context.put_in_quarantine(bad.path, bad.reason)
        self.failed.update((tp, bad.reason) for tp, bad in read.broken.items())
        for tp in read.missing:
            if not self.is_expected_to_lack_state(tp):
                self.failed[tp] = "the state znode does not exist"
        usable, epoch = {}, self._context.epoch
        for tp, state in read.states.items():
            if state.controller_epoch > epoch:
                self.failed[tp] = f"written by controller epoch {state.controller_epoch}, ours is {epoch}"
            else:
                usable[tp] = state
        return usable

    async def _write(self, updates: States) -> list[TopicPartition]:
        lost: list[TopicPartition] = []
        results = await self.write(updates)

        def take(part: Sequence[tuple[TopicPartition, WriteResult]]) -> None:
            written: list[NewLeadership] = []
            for tp, result in part:
                if isinstance(result, Written):
                    written.append((self._context.record(tp), updates[tp].at(result.version)))
                elif isinstance(result, Conflict):
                    lost.append(tp)
                else:
                    self.failed[tp] = result.reason
            self.take_written(written)

        await self._slicer.for_each_slice(list(results.items()), take)
        return lost


class KnownStates(NamedTuple):
    """The states that need no read, the partitions that must be read, and the partitions to leave alone, with why."""

    known: dict[TopicPartition, LeaderAndIsr]
    unread: list[TopicPartition]
    quarantined: dict[TopicPartition, str]


async def known_states(records: Sequence[PartitionRecord], context: ControllerContext, slicer: Slicer) -> KnownStates:
    """Divide partitions by whether their states must be read before they are changed."""
    found = KnownStates({}, [], {})
    trusted, epoch = context.features.alter_partition, context.epoch

    def divide(part: Sequence[PartitionRecord]) -> None:
        for record in part:
            state = record.leadership
            if context.quarantine and (reason := context.quarantine.get(record.tp.state_path)) is not None:
                found.quarantined[record.tp] = f"in quarantine: {reason}"
            elif trusted and state is not None and state.controller_epoch <= epoch:
                found.known[record.tp] = state
            else:
                found.unread.append(record.tp)

    await slicer.for_each_slice(records, divide)
    return found


class PartitionwiseChange(StateChange):
    """A change that is decided for each partition by itself."""

    what: ClassVar[str]
    """The name of the change in refusals."""

    def __init__(self, context: ControllerContext, states: StateUpdater, audit: AuditLog, slicer: Slicer) -> None:
        super().__init__(context, states, audit, slicer)
        self._done: set[TopicPartition] = set()

    @abstractmethod
    def decide_one(self, record: PartitionRecord, state: LeaderAndIsr) -> LeaderAndIsr | LeaderEpochExhausted | None:
        """The state to write in place of ``state``; None when it is right as it is."""

    @abstractmethod
    def record_decisions(self) -> None:
        """Write the leaders that were chosen into the audit log, before ZooKeeper is written."""

    async def run(self, records: Sequence[PartitionRecord]) -> list[PartitionRecord]:
        """Return the partitions that are as wanted now, in their order. All of them have leadership."""
        await self.change(records)
        record_refusals(self._audit, self.what, self.failed.items())
        done: list[PartitionRecord] = []
        await self._slicer.for_each_slice(
            records, lambda part: done.extend([record for record in part if record.tp in self._done])
        )
        return done

    async def decide(self, states: States) -> dict[TopicPartition, LeaderAndIsr]:
        """Decide partition by partition; a state that is right already is put into the context."""
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        await self._slicer.for_each_slice(list(states.items()), lambda part: self._decide_part(part, updates))
        self.record_decisions()
        return updates

    def _decide_part(
        self, part: Sequence[tuple[TopicPartition, LeaderAndIsr]], updates: dict[TopicPartition, LeaderAndIsr]
    ) -> None:
        right: list[NewLeadership] = []
        for tp, state in part:
            record = self._context.record(tp)
            changed = self.decide_one(record, state)
            if changed is None:
                right.append((record, state))  # it may have been read just now
                self._done.add(tp)
            elif isinstance(changed, LeaderEpochExhausted):
                self.failed[tp] = "the leader epoch is exhausted"
            elif changed.isr != state.isr and changed.leader not in (NO_LEADER, *changed.isr):
                # Another controller left it so: only an election repairs a state that is not sound.
                self.failed[tp] = f"the leader {changed.leader} is not in the ISR"
            else:
                updates[tp] = changed
        self._context.set_leaderships(right)

    def take_written(self, written: Sequence[NewLeadership]) -> None:
        """Put the new leaderships into the context."""
        self._context.set_leaderships(written)
        self._done.update(record.tp for record, _ in written)

    def is_expected_to_lack_state(self, tp: TopicPartition) -> bool:
        """A topic whose deletion has begun may have lost its state znodes."""
        return is_hidden(self._context, tp.topic)


class EpochBump(PartitionwiseChange):
    """The same leadership with the next leader epoch, so that brokers accept a changed assignment (KIP-455)."""

    what: ClassVar[str] = "leader epoch"

    def decide_one(self, _record: PartitionRecord, state: LeaderAndIsr) -> LeaderAndIsr | LeaderEpochExhausted | None:
        """Return the state with the next leader epoch: every partition is written."""
        return bump_leader_epoch(state, self._context.epoch)

    def record_decisions(self) -> None:
        """Nothing: no leader is chosen."""
